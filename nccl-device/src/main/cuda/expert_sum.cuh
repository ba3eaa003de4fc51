// The sum of a token's outputs times their weights: float32, each operation rounded by itself, in the order of the
// calls, and at the end rounded to the type.
#pragma once
#include "expert.cuh"

namespace nccl4j {
namespace experts {

template <class T>
struct Sum {
  static constexpr u32 kElements = 16 / sizeof(T);
  float at[kElements] = {};

  __device__ __forceinline__ void add(Pack outputs, float weight) {
    Elements<T> x;
    x.pack = outputs;
#pragma unroll
    for (u32 e = 0; e < kElements; e++) at[e] = __fadd_rn(at[e], __fmul_rn(weight, (float)x.at[e]));
  }

  __device__ __forceinline__ Pack rounded() const {
    Elements<T> x;
#pragma unroll
    for (u32 e = 0; e < kElements; e++) x.at[e] = (T)at[e];
    return x.pack;
  }
};

}  // namespace experts
}  // namespace nccl4j
