// The scale of a block of elements that travel as 8 bits each. Class QuantisedWork.Parts of the host has the same
// arithmetic: every operation is rounded by itself.
#pragma once
#include <cstdint>

namespace nccl4j {

constexpr float kMostFp8 = 448;  // the number that a block's greatest magnitude becomes
constexpr float kMostInt8 = 127;
constexpr uint32_t kMagnitude = 0x7fffffffu;

struct BlockScale {
  bool finite;   // false for a block with an infinity or a NaN: all of its codes are 0, and its scale is NaN
  float factor;  // from an element to its code's number
  float scale;   // and back

  // most: the greatest bits of a magnitude. Of a smaller one than 2 to the -100 the factor would be infinite.
  __device__ __forceinline__ BlockScale(uint32_t most, float top) {
    constexpr float kLeast = 0x1p-100f;
    constexpr uint32_t kInfinity = 0x7f800000u;
    constexpr uint32_t kNaN = 0x7fc00000u;
    const float greatest = most == 0 ? top : fmaxf(__uint_as_float(most), kLeast);
    finite = most < kInfinity;
    factor = __fdiv_rn(top, greatest);
    scale = __fdiv_rn(greatest, top);
    if (!finite)
      scale = __uint_as_float(kNaN);
    else if (__float_as_uint(__fmul_rn(scale, top)) >= kInfinity)
      scale = __uint_as_float(__float_as_uint(scale) - 1);
  }
};

}  // namespace nccl4j
