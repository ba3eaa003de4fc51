// Kernels between copies of copy engines: one tells a rank how many copies have ended, one waits for the
// copies of others. They are kernels, not stream operations, for the reason in direct_signal.cuh.
#pragma once
#include "launch.cuh"
#include "layout.h"
#include "memory.cuh"
#include "wait.cuh"

namespace nccl4j {
namespace copies {

__device__ __forceinline__ u64 count(const nccl4jCopyArguments& a) { return *(u64*)a.counter += a.number; }

__device__ __forceinline__ void tell(const nccl4jCopyArguments& a) {
  awaitPredecessor();
  const u64 number = count(a);
  fenceSystem();
  storeWordRelaxed((void*)a.word, number);
}

__device__ __forceinline__ void await(const nccl4jCopyArguments& a) {
  awaitPredecessor();
  const u64 number = count(a);
  Patience patience(a.comm);
  while (loadWordAcquire((void*)a.word) < number)
    if (patience.exhausted(a.peer, 0, a.kind, number)) break;
}

}  // namespace copies
}  // namespace nccl4j
