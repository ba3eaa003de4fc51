// The mean of integers, alone so that a test without nvcc can check it.
#pragma once
#include <type_traits>

#ifdef __CUDACC__
#define NCCL4J_INLINE __device__ __forceinline__
#else
#define NCCL4J_INLINE inline
#endif

namespace nccl4j {

// The sum of an element divided by the number of ranks, which may be too large for elements of one byte:
// those are divided as int.
template <class T>
NCCL4J_INLINE T meanOf(T sum, int nRanks) {
  using Divided = std::conditional_t<sizeof(T) == 1, int, T>;
  return T(sum / Divided(nRanks));
}

}  // namespace nccl4j
