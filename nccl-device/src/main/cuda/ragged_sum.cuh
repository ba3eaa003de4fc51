// The second kernel of a reduce-scatter whose counts only the device knows. The first, an all-to-all, has brought this
// rank's part of all ranks to the received elements, one copy behind the other. This one combines them in the order of
// the ranks, and rounds once. The result takes the place of the first copy: a thread has loaded all copies of a number
// before it stores the combination.
#pragma once
#include "launch.cuh"
#include "ragged_layout.h"
#include "reduce.cuh"

namespace nccl4j {
namespace ragged {

constexpr int kSumThreads = NCCL4J_RAGGED_SUM_THREADS;

// Up to 16 bytes of numbers from a place.
template <class T>
__device__ __forceinline__ void loadWords(const char* from, u64 left, bool whole, u64 (&x)[2]) {
  if (whole) {
    const Pack pack = loadData(from);
    x[0] = pack.lo;
    x[1] = pack.hi;
    return;
  }
  x[0] = loadElements<T>(from, (u32)min(left, 8ull));
  x[1] = left > 8 ? loadElements<T>(from + 8, (u32)min(left - 8, 8ull)) : 0;
}

template <class T>
__device__ __forceinline__ void sumCopies(const nccl4jRaggedSumArguments& a) {
  awaitPredecessor();
  const u64 elements = a.wide ? *(const u64*)a.counted : (u64)*(const u32*)a.counted;
  const u64 bytes = elements * a.values * sizeof(T), step = 16ull * gridDim.x * blockDim.x;
  const bool aligned = ((a.send | a.recv | bytes) & 15) == 0;
  const Touch touch = touchFor<T>(a.op);
  const bool scales = touch.scale && !kWidens<T>;
  const Inside inside = insideMean<T>(a.op, a.copies);
#pragma unroll 1
  for (u64 at = 16ull * (blockIdx.x * blockDim.x + threadIdx.x); at < bytes; at += step) {
    const char* from = (const char*)a.send + at;
    const u64 left = bytes - at;
    Accumulator<T, 2> sum;
#pragma unroll 4
    for (u32 copy = 0; copy < a.copies; copy++) {
      u64 x[2];
      loadWords<T>(from + copy * bytes, left, aligned, x);
      if (scales) {
        x[0] = scaleElements<T>(x[0], a.copies);
        x[1] = scaleElements<T>(x[1], a.copies);
      }
      if (copy == 0)
        sum.set(x, inside);
      else
        sum.add(a.op, x, inside);
    }
    u64 x[2];
    sum.result(x);
    if (touch.divide) {
      x[0] = divideElements<T>(x[0], a.copies);
      x[1] = divideElements<T>(x[1], a.copies);
    }
    char* to = (char*)a.recv + at;
    nccl4j::storeElements<T>(to, x[0], (u32)min(left, 8ull));
    if (left > 8) nccl4j::storeElements<T>(to + 8, x[1], (u32)min(left - 8, 8ull));
  }
}

}  // namespace ragged
}  // namespace nccl4j
