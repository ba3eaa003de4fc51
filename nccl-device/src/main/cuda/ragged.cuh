// Exchanges whose counts only the device knows: ragged all-to-all and all-gather, one kernel each.
//
// Few elements of a rank for another go in lines, at once (ragged_lines.cuh). More of them wait for the counts of all
// ranks, which say where they go in the other rank's memory: behind those of the ranks in front. The sender stores them
// there directly. A block then tells the same block of the other rank that its stores are done. The count decides which
// way elements go, so both ranks know it.
//
// A rank's counts also say that its received elements may be overwritten: it has reached this call.
#pragma once
#include <type_traits>

#include "ragged_lines.cuh"
#include "unaligned.cuh"

namespace nccl4j {
namespace ragged {

// Copies bytes to some places that begin at the same place of a pack, by all blocks of the kernel.
// thread: this thread's number for this copy.
template <class To>
__device__ __forceinline__ void copyPart(const char* from, u64 bytes, u64 thread, u32 targets, To to) {
  const u64 step = 16ull * gridDim.x * blockDim.x;
  const WholePacks packs = wholePacks((u64)to(0), 0, bytes);
  u64 at = packs.begin + 16 * thread;
  auto loop = [&](auto flights) {
    constexpr int N = decltype(flights)::value;
    for (; at + (N - 1) * step < packs.end; at += N * step) {
      Pack x[N];
      loadAnywhere(x, from, N, loadData, [&](int i) { return at + i * step; });
#pragma unroll 1
      for (u32 t = 0; t < targets; t++) {
        char* target = to(t) + at;
#pragma unroll
        for (int i = 0; i < N; i++) storeData(target + i * step, x[i]);
      }
    }
  };
  loop(std::integral_constant<int, 4>());
  loop(std::integral_constant<int, 1>());
  const u64 edge = edgeAt(packs, 0, bytes, thread, 1);
  if (edge >= bytes) return;
  const uint8_t byte = *(const volatile uint8_t*)(from + edge);
  for (u32 t = 0; t < targets; t++) *(volatile uint8_t*)(to(t) + edge) = byte;
}

// A thread's number for the copy of a turn. The first block takes the first packs of turn 0, the second those of turn
// 1, so that few bytes of several turns have a block each. The last threads take the first packs for the rank itself:
// the first ones may have lines to take.
__device__ __forceinline__ u64 threadOfTurn(const nccl4jRaggedArguments& a, u32 turn) {
  if (turn == a.comm.nRanks - 1) return (u64)gridDim.x * blockDim.x - 1 - threadOfAll();
  return (u64)((blockIdx.x + gridDim.x - turn % gridDim.x) % gridDim.x) * blockDim.x + threadIdx.x;
}

// Stores elements into the memory of the ranks for which they do not go in lines, and into this rank's own. All
// threads.
__device__ __forceinline__ void storeElements(const nccl4jRaggedArguments& a, const Shared& s) {
  const u32 n = a.comm.nRanks, me = a.comm.rank;
  auto target = [&](u32 turn) {
    const u32 rank = targetOf(a, turn);
    return peer(a, rank, a.received) + s.to[rank] * a.elementBytes;
  };
  if (a.gathers && !inLines(a, s.own[0])) {
    copyPart((const char*)a.send, s.own[0] * a.elementBytes, threadOfAll(), n, target);
    return;
  }
#pragma unroll 1
  for (u32 turn = a.gathers ? n - 1 : 0; turn < n; turn++) {
    const u32 rank = targetOf(a, turn);
    if (rank != me && inLines(a, s.own[rank])) continue;
    copyPart((const char*)a.send + s.from[rank] * a.elementBytes, s.own[rank] * a.elementBytes, threadOfTurn(a, turn),
             1, [&](u32) { return target(turn); });
  }
}

// Tells the same block of the ranks for which elements were stored that this block's stores are done, and waits for
// those that have stored elements here. All threads.
__device__ __forceinline__ void meetAtEnd(const nccl4jRaggedArguments& a, const Shared& s, u64 number) {
  auto flag = [&](u32 writer) { return a.flags + 8ull * (kRanks * blockIdx.x + writer); };
  __syncthreads();
  const u32 other = threadIdx.x, me = a.comm.rank;
  if (other < (u32)a.comm.nRanks && other != me) {
    if (!inLines(a, s.own[other])) storeWordRelease(peer(a, other, flag(me)), number);
    if (!inLines(a, s.counts[other][me])) {
      Patience patience(a.comm);
      while (loadWordAcquire(own(a, flag(other))) < number)
        if (patience.exhausted(other, blockIdx.x, 0, number)) break;
    }
  }
  __syncthreads();
}

__device__ __forceinline__ void exchange(const nccl4jRaggedArguments& a, Shared& s) {
  awaitPredecessor();
  admitSuccessor(a.comm);
  u64* calls = (u64*)a.calls + blockIdx.x;
  const u64 number = *calls + 1, half = number & 1;
  Lines lines(a, number);
  if (knowOwn(a, s, half, lines)) sendLines(a, s, half, lines.flags);
  if (!awaitCounts(a, s, half, lines) || !findPlaces(a, s)) return;
  storeElements(a, s);
  takeLines(a, s, half, lines);
  meetAtEnd(a, s, number);
  if (threadIdx.x == 0) *calls = number;
}

}  // namespace ragged
}  // namespace nccl4j
