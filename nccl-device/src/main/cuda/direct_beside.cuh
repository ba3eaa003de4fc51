// Kernels that work beside copy engines, between two ranks. Engines fill the links best, but a copy
// begins late, and ends late for who waits for it; what the kernel moves fills that time, and what is
// combined is combined while the next chunk comes. The stream of the copies waits for a word that the
// kernel writes once both ranks have begun, and writes words that the kernel waits for: so nothing
// has to wait for streams to part and join. The other rank's kernel says whether it has engines at all:
// where a launch was captured it has none, since a graph would write the same numbers again.
#pragma once
#include "direct_window.cuh"

namespace nccl4j {
namespace direct {

// Words of 128 bytes each, from m.engine on.
constexpr u64 kGo = 0;        // the number of the last launch whose copies may begin
constexpr u64 kEnded = 128;   // ... whose copies have ended; written by the own stream
constexpr u64 kCame = 256;    // 64 times such a number of the other's, and chunks that have come
constexpr u64 kTheirs = 384;  // the kernel's number in the upper half, the other's launch in the lower

__device__ __forceinline__ bool leads() { return blockIdx.x == 0 && threadIdx.x == 0; }

__device__ __forceinline__ void beginBeside(const nccl4jBesideArguments& m, u32 number) {
  const nccl4jDirectArguments& a = m.direct;
  if (leads())
    storeWordRelaxed(peer(a, 1 - a.comm.rank, m.engine + kTheirs), (u64)number << 32 | m.number);
  arrive(a, number);
  awaitBegin(a, number);
  // Also if the other rank did not come: the stream must not wait for ever.
  if (leads() && m.number != 0) storeFlagRelease(own(a, m.engine + kGo), m.number);
}

// The number of the other's launch among those with engines, or 0. One thread.
__device__ __forceinline__ u32 theirNumber(const nccl4jBesideArguments& m, u32 number) {
  const nccl4jDirectArguments& a = m.direct;
  Patience patience(a.comm);
  u64 word;
  while ((u32)((word = loadWordRelaxed(own(a, m.engine + kTheirs))) >> 32) != number)
    if (patience.exhausted(1 - a.comm.rank, blockIdx.x, 0, number)) return 0;
  return (u32)word;
}

// One thread.
__device__ __forceinline__ void awaitEngine(const nccl4jBesideArguments& m, u64 word, u32 value) {
  const nccl4jDirectArguments& a = m.direct;
  Patience patience(a.comm);
  while ((int)(loadFlagAcquire(own(a, m.engine + word)) - value) < 0)
    if (patience.exhausted(1 - a.comm.rank, blockIdx.x, 0, value)) break;
}

// Copies a range by some of the blocks.
__device__ __forceinline__ void copyRange(char* to, const char* from, u64 begin, u64 end, u32 block,
                                          u32 blocks) {
  constexpr int kUnroll = 4;
  const bool aligned = (((u64)to | (u64)from | begin) & 15) == 0;
  const u64 packed = aligned ? begin + (end - begin) / 16 * 16 : begin;
  const u64 threads = (u64)blocks * blockDim.x, thread = (u64)block * blockDim.x + threadIdx.x;
  for (u64 at = begin + 16 * thread; at < packed; at += 16 * kUnroll * threads) {
    Pack x[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; u++)
      if (at + 16 * u * threads < packed) x[u] = loadData(from + at + 16 * u * threads);
#pragma unroll
    for (int u = 0; u < kUnroll; u++)
      if (at + 16 * u * threads < packed) storeData(to + at + 16 * u * threads, x[u]);
  }
  for (u64 at = packed + 8 * thread; at < end; at += 8 * threads) {
    const u32 bytes = (u32)min(8ull, end - at);
    storeElements<uint8_t>(to + at, loadElements<uint8_t>(from + at, bytes), bytes);
  }
}

// All-gather and all-to-all. Engines move the first m.engineBytes; the first m.movers blocks move the
// rest, the others what this rank has for itself. With the phases apart, something else moves all of
// it between two kernels that are one.
__device__ __forceinline__ void copyBeside(const nccl4jBesideArguments& m) {
  const nccl4jDirectArguments& a = m.direct;
  begin();
  const u32 number = epoch(a);
  const int rank = a.comm.rank, other = 1 - rank;
  const bool gathers = a.operation == DIRECT_ALL_GATHER;
  if (m.phases & BESIDE_BEGIN) beginBeside(m, number);
  if (!(m.phases & BESIDE_END)) return;
  if (m.phases & BESIDE_BEGIN) {
    const char* send = (const char*)a.send;
    const u64 first = m.number != 0 ? m.engineBytes : 0;
    if (blockIdx.x < m.movers) {
      copyRange(recvOf(a, other) + rank * a.bytes, send + (gathers ? 0 : other * a.bytes), first,
                a.bytes, blockIdx.x, m.movers);
    } else {
      const char* mine = send + (gathers ? 0 : rank * a.bytes);
      char* place = (char*)a.recv + rank * a.bytes;
      if (mine != place)
        copyRange(place, mine, 0, a.bytes, blockIdx.x - m.movers, gridDim.x - m.movers);
    }
  }
  // Known before the end is told: in its next kernel the other rank says something else.
  const u32 theirs = leads() ? theirNumber(m, number) : 0;
  __syncthreads();
  if (meetsOther(a)) storeFlagRelease(peer(a, other, flagRow(a) + 4 * rank), 2 * number + 1);
  if (theirs != 0) awaitEngine(m, kCame, 64 * theirs + 1);
  if (leads() && m.number != 0) awaitEngine(m, kEnded, m.number);
  awaitFlags(a, 2 * number + 1);
  finish(a, number);
}

// Reduce-scatter and all-reduce. The other's engines bring what it has for this rank to where the
// result will be, but for the last bytes, which are loaded from it meanwhile.
template <class T>
__device__ __forceinline__ void reduceBeside(const nccl4jBesideArguments& m) {
  __shared__ u32 shared;
  const nccl4jDirectArguments& a = m.direct;
  begin();
  const u32 number = epoch(a);
  const int rank = a.comm.rank;
  const bool toAll = a.operation == DIRECT_ALL_REDUCE;
  beginBeside(m, number);
  if (threadIdx.x == 0) shared = theirNumber(m, number);
  __syncthreads();
  const u32 theirs = shared;
  const u64 all = a.bytes, half = min(all, (all / 2 + 15) / 16 * 16);  // as in two-shot
  const u64 first = toAll && rank == 1 ? half : 0;
  const u64 last = toAll && rank == 0 ? half : all;
  const u64 skip = toAll ? 0 : rank * all;
  const u64 brought = m.engineBytes, chunk = m.chunk;
  const u64 cut = theirs != 0 ? min(last, first + brought) : first;
  const bool aligned = ((a.send + skip | a.recv) & 15) == 0;
  char *here = (char*)a.recv, *there = toAll ? recvOf(a, 1 - rank) : nullptr;
  auto toPack = [&](u64 at, Pack x) {
    storeData(here + at, x);
    if (toAll) storeData(there + at, x);
  };
  auto toWord = [&](u64 at, u64 x, u32 bytes) {
    storeElements<T>(here + at, x, bytes);
    if (toAll) storeElements<T>(there + at, x, bytes);
  };
  bool come = true;
  u32 chunks = 0;
  for (u64 at = cut, end = last;; come = false) {
    combineAll<T>(
        a, at, end, aligned,
        [&](int r) {
          return r == rank ? (const char*)a.send + skip : come ? sendOf(a, r) + skip : here;
        },
        toPack, toWord);
    at = come ? first : end;
    if (at >= cut) break;
    const u64 rest = cut - at;
    end = at + (rest <= chunk ? rest : toAll ? chunk : max(chunk, rest / 2 & ~127ull));
    chunks++;
    if (threadIdx.x == 0) awaitEngine(m, kCame, 64 * theirs + chunks);
    __syncthreads();
  }
  meetAtEnd(a, number);
  finish(a, number);
}

}  // namespace direct
}  // namespace nccl4j
