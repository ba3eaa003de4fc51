// A lane's elements as fp8, with the scale of their group, which eight neighbouring lanes have.
#pragma once
#include "block_scale.cuh"
#include "expert.cuh"

namespace nccl4j {
namespace experts {

template <class T>
struct Fp8 {
  static constexpr u32 kMine = 16;
  static constexpr u32 kPacks = kMine * sizeof(T) / 16;
  Pack pack;
  float scale;

  // All lanes of a warp.
  __device__ __forceinline__ explicit Fp8(const Elements<T> (&x)[kPacks]) {
    constexpr u32 kEach = 16 / sizeof(T);
    u32 most = 0;
#pragma unroll
    for (u32 p = 0; p < kPacks; p++)
#pragma unroll
      for (u32 e = 0; e < kEach; e++) most = max(most, __float_as_uint((float)x[p].at[e]) & kMagnitude);
#pragma unroll
    for (u32 distance = 4; distance > 0; distance /= 2) most = max(most, __shfl_xor_sync(~0u, most, distance));
    const BlockScale of(most, kMostFp8);
    u64 words[2] = {0, 0};
#pragma unroll
    for (u32 e = 0; e < kMine; e += 2) {
      const float2 pair = {__fmul_rn((float)x[e / kEach].at[e % kEach], of.factor),
                           __fmul_rn((float)x[e / kEach].at[e % kEach + 1], of.factor)};
      words[e / 8] |= (u64)__nv_cvt_float2_to_fp8x2(pair, __NV_SATFINITE, __NV_E4M3) << e % 8 * 8;
    }
    pack = of.finite ? Pack{words[0], words[1]} : Pack{0, 0};
    scale = of.scale;
  }
};

}  // namespace experts
}  // namespace nccl4j
