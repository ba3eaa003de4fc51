// Signals between ranks, and a barrier between copies of copy engines. They are kernels: stream memory
// operations would wait without a deadline, and in a graph would write the same value again.
#pragma once
#include "direct.cuh"

namespace nccl4j {
namespace direct {

constexpr u64 kSignalStride = 128;

// Sends one more signal to the team's rank at place root, after all earlier work of the stream.
__device__ __forceinline__ void signal(const nccl4jDirectArguments& a) {
  begin(a);
  if (threadIdx.x != 0) return;
  u64* sent = (u64*)own(a, a.counts) + a.root;
  u64 value = ++*sent;
  fenceSystem();
  storeWordRelaxed(peer(a, a.root, kSignalStride * a.comm.rank), value);
}

// Waits until every rank of the team, whose first is rank root, has sent the required number of signals.
__device__ __forceinline__ void await(const nccl4jAwaitArguments& m) {
  const nccl4jDirectArguments& a = m.direct;
  begin(a);
  const int from = threadIdx.x;
  if (from >= a.comm.nRanks || m.awaited[from] == 0) return;
  u64* waited = (u64*)own(a, a.counts) + NCCL4J_DIRECT_RANKS + from;
  u64 value = *waited + m.awaited[from];
  *waited = value;
  char* word = own(a, kSignalStride * from);
  Patience patience(a.comm);
  while (loadWordAcquire(word) < value)
    if (patience.exhausted(a.root + from, 0, 0, value)) break;
}

__device__ __forceinline__ void meet(const nccl4jDirectArguments& a) {
  begin(a);
  const u32 number = epoch(a);
  arrive(a, number);
  awaitBegin(a, number);
  finish(a, number);
}

}  // namespace direct
}  // namespace nccl4j
