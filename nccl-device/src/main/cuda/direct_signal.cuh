// Signals between ranks, and a barrier between copies of copy engines. Kernels and not operations of
// the stream, since those would wait without a deadline and write the same value again in a graph.
#pragma once
#include "direct.cuh"

namespace nccl4j {
namespace direct {

constexpr u64 kSignalStride = 128;

// After all that came before in the stream: one more signal to rank root.
__device__ __forceinline__ void signal(const nccl4jDirectArguments& a) {
  begin();
  if (threadIdx.x != 0) return;
  u64* sent = (u64*)own(a, a.counts) + a.root;
  u64 value = ++*sent;
  fenceSystem();
  storeWordRelaxed(peer(a, a.root, kSignalStride * a.comm.rank), value);
}

// Until every rank has signalled as often as asked for.
__device__ __forceinline__ void await(const nccl4jDirectArguments& a) {
  begin();
  const int from = threadIdx.x;
  if (from >= a.comm.nRanks || a.awaited[from] == 0) return;
  u64* waited = (u64*)own(a, a.counts) + NCCL4J_DIRECT_RANKS + from;
  u64 value = *waited + a.awaited[from];
  *waited = value;
  char* word = own(a, kSignalStride * from);
  Patience patience(a.comm);
  while (loadWordAcquire(word) < value)
    if (patience.exhausted(from, 0, 0, value)) break;
}

__device__ __forceinline__ void meet(const nccl4jDirectArguments& a) {
  begin();
  const u32 number = epoch(a);
  arrive(a, number);
  awaitBegin(a, number);
  finish(a, number);
}

}  // namespace direct
}  // namespace nccl4j
