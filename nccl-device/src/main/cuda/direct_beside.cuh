// Kernels that work beside copy engines, between two ranks. Engines use the links best, but a copy begins
// late, and its end is seen late. The kernel moves data during that time, and reduces while the next copy
// arrives. The stream of the copies waits for a word that the kernel writes once both ranks have begun,
// and writes words that kernels wait for. So no stream waits for another through events. The other rank's
// kernel tells whether its launch has engines. A captured launch has none, since a graph would write the
// same numbers again.
#pragma once
#include "direct_window.cuh"

namespace nccl4j {
namespace direct {

static_assert(BESIDE_UNITS + 8 * NCCL4J_BESIDE_MOVERS <= BESIDE_BLOCKS, "movers have a word each");
static_assert(BESIDE_BLOCKS + 4 * NCCL4J_BESIDE_COPIES <= BESIDE_BYTES, "copies have a word each");

__device__ __forceinline__ bool leads() { return blockIdx.x == 0 && threadIdx.x == 0; }

__device__ __forceinline__ void beginBeside(const nccl4jBesideArguments& m, u32 number) {
  const nccl4jDirectArguments& a = m.direct;
  if (leads())
    storeWordRelaxed(peer(a, 1 - a.comm.rank, m.engine + BESIDE_THEIRS + 8 * (number & 1)),
                     (u64)number << 32 | m.number);
  arrive(a, number);
  awaitBegin(a, number);
  if (!leads() || m.number == 0) return;
  // Streams compare numbers cyclically. The last launch that wrote BESIDE_SUMMED may be 2^25 launches ago, and its
  // word would pass for one ahead. A stream looks at BESIDE_SUMMED only after BESIDE_GO.
  storeControl(own(a, m.engine + BESIDE_SUMMED), NCCL4J_BESIDE_COPIES * m.number);
  // Also if the other rank did not arrive: the stream must not wait forever.
  storeFlagRelease(own(a, m.engine + BESIDE_GO), m.number);
}

// The number of the other rank's launch among its launches with engines, or 0. One thread.
__device__ __forceinline__ u32 theirNumber(const nccl4jBesideArguments& m, u32 number) {
  const nccl4jDirectArguments& a = m.direct;
  Patience patience(a.comm);
  u64 word;
  while ((u32)((word = loadWordRelaxed(own(a, m.engine + BESIDE_THEIRS + 8 * (number & 1)))) >> 32) != number)
    if (patience.exhausted(1 - a.comm.rank, blockIdx.x, 0, number)) return 0;
  return (u32)word;
}

// True if a word has reached a value. The writer is in this launch, whose values have no more copies than there may be,
// or in an earlier launch, whose values are old at any distance. A launch's number alone counts as so many copies.
__device__ __forceinline__ bool reached(u32 found, u32 value) {
  return found - value < NCCL4J_BESIDE_COPIES - value % NCCL4J_BESIDE_COPIES;
}

// One thread.
__device__ __forceinline__ void awaitEngine(const nccl4jBesideArguments& m, u64 word, u32 value) {
  const nccl4jDirectArguments& a = m.direct;
  Patience patience(a.comm);
  while (!reached(loadFlagAcquire(own(a, m.engine + word)), value))
    if (patience.exhausted(1 - a.comm.rank, blockIdx.x, 0, value)) break;
}

// The copy of the other rank's engines that begins at an offset.
__device__ __forceinline__ u64 copyBytes(const nccl4jBesideArguments& m, u64 at) {
  const u64 rest = m.engineBytes - at;
  if (m.most <= m.chunk) return min((u64)m.chunk, rest);
  return rest < 2 * m.chunk ? rest : min((u64)m.most, rest / 2 & ~127ull);
}

// Copies a range by some of the blocks.
template <int UNROLL>
__device__ __forceinline__ void copyRange(char* to, const char* from, u64 begin, u64 end,
                                          Share share) {
  const WholePacks packs = wholePacks((u64)to, begin, end);
  const bool inPhase = (((u64)to ^ (u64)from) & 15) == 0;
  const u64 threads = (u64)share.blocks * blockDim.x;
  const u64 thread = (u64)share.block * blockDim.x + threadIdx.x;
  if (inPhase) {
    for (u64 at = packs.begin + 16 * thread; at < packs.end; at += 16 * UNROLL * threads) {
      Pack x[UNROLL];
#pragma unroll
      for (int u = 0; u < UNROLL; u++)
        if (at + 16 * u * threads < packs.end) x[u] = loadData(from + at + 16 * u * threads);
#pragma unroll
      for (int u = 0; u < UNROLL; u++)
        if (at + 16 * u * threads < packs.end) storeData(to + at + 16 * u * threads, x[u]);
    }
  } else {
    copyOutOfPhase<false>(to, from, packs, thread, threads, loadData, storeData);
  }
  copyEdges(to, from, packs, begin, end, thread);
}

// Copy completion is observed late; the kernel uses the idle links meanwhile. It starts its last bytes this long
// before the expected end, which it knows from the last launch.
constexpr u64 kLead = 13000;         // nanoseconds
constexpr u64 kLeastLearned = 8192;  // KiB that engines move; with fewer, other costs dominate

__device__ __forceinline__ bool haveEnded(const nccl4jBesideArguments& m) {
  return reached(loadFlagAcquire(own(m.direct, m.engine + BESIDE_ENDED)), m.number);
}

// One thread. Engines that end earlier than expected are not waited for.
__device__ __forceinline__ void awaitTail(const nccl4jBesideArguments& m, u64 go) {
  const u64 pace = loadWordRelaxed(own(m.direct, m.engine + BESIDE_PACE));
  const u64 begin = pace * (m.engineBytes >> 10) >> 10;
  while (nanoseconds() - go < begin && !haveEnded(m)) {
  }
}

// One thread, after the engines' copies have ended. If they ended before the kernel's last bytes, the
// kernel starts its last bytes a little earlier the next time.
__device__ __forceinline__ void awaitEnded(const nccl4jBesideArguments& m, u64 go) {
  char* word = own(m.direct, m.engine + BESIDE_PACE);
  const u64 before = loadWordRelaxed(word), kibibytes = m.engineBytes >> 10;
  const bool early = haveEnded(m);
  awaitEngine(m, BESIDE_ENDED, m.number);
  const u64 took = nanoseconds() - go;
  if (kibibytes < kLeastLearned || took < kLead) return;
  const u64 pace = ((took - kLead) << 10) / kibibytes;
  storeWordRelaxed(word, early ? min(pace, before - before / 64) : pace);
}

// All-gather and all-to-all. The kernel moves some of the other rank's data at the begin and at the end,
// and this rank's own data in between. With separate phases, two kernels act as one, and engines or a
// kernel with more blocks move all the data between them. With eight packs in flight a block copies as much as a
// multiprocessor stores, and takes the registers of a whole one: two blocks on one would copy no more.
__device__ __forceinline__ void copyBeside(const nccl4jBesideArguments& m) {
  constexpr int kUnroll = 8;
  const nccl4jDirectArguments& a = m.direct;
  begin(a);
  const u32 number = epoch(a);
  const int rank = a.comm.rank, other = 1 - rank;
  const bool gathers = a.operation == DIRECT_ALL_GATHER;
  if (m.phases & BESIDE_BEGIN) beginBeside(m, number);
  if (m.phases == BESIDE_BEGIN) return;
  const u64 go = nanoseconds();
  if (m.phases != BESIDE_END) {
    const char* given = (const char*)a.send + (gathers ? 0 : other * a.bytes);
    char* there = recvOf(a, other) + rank * a.bytes;
    const u64 tail = m.number != 0 ? m.engineBytes + m.head : a.bytes;
    copyRange<kUnroll>(there, given, m.number != 0 ? m.engineBytes : 0, tail, allBlocks());
    const char* mine = (const char*)a.send + (gathers ? 0 : rank * a.bytes);
    char* place = (char*)a.recv + rank * a.bytes;
    if (mine != place) copyRange<kUnroll>(place, mine, 0, a.bytes, allBlocks());
    if (tail < a.bytes) {
      if (threadIdx.x == 0) awaitTail(m, go);
      __syncthreads();
      copyRange<kUnroll>(there, given, tail, a.bytes, allBlocks());
    }
  }
  if (m.phases == BESIDE_MOVE) return;
  __syncthreads();
  tellEnd(a, number);
  if (leads()) {
    if (m.number != 0) awaitEnded(m, go);
    // The engines' data arrived before their word.
    storeControl(peer(a, other, m.engine + BESIDE_ARRIVED), number);
    awaitEngine(m, BESIDE_ARRIVED, number);
  }
  awaitEnd(a, number);
  finish(a, number);
}

// Tells the stream that gives sums to the other rank that a copy is summed, once all blocks have told so. The
// stores of a block come before its count, and all blocks' before the last one's word.
__device__ __forceinline__ void tellSummed(const nccl4jBesideArguments& m, u32 copies) {
  __syncthreads();
  if (threadIdx.x != 0) return;
  u32* count = (u32*)own(m.direct, m.engine + BESIDE_BLOCKS) + copies;
  fenceSystem();
  if (atomicAdd(count, 1u) + 1 < gridDim.x) return;
  *count = 0;
  fenceSystem();
  storeFlagRelease(own(m.direct, m.engine + BESIDE_SUMMED), NCCL4J_BESIDE_COPIES * m.number + copies);
}

// All-reduce. The other rank's engines copy its data of this rank's half to the place of the result. The kernel
// sums each copy there. It stores the sums to both ranks, or this rank's engines give them to the other rank: then
// few blocks are enough, since they touch this rank's memory alone. The kernel loads the last bytes from the other
// rank meanwhile, and stores their sums to both ranks.
template <class T>
__device__ __forceinline__ void reduceBeside(const nccl4jBesideArguments& m) {
  __shared__ u32 shared;
  const nccl4jDirectArguments& a = m.direct;
  begin(a);
  const u32 number = epoch(a);
  const int rank = a.comm.rank;
  beginBeside(m, number);
  if (threadIdx.x == 0) shared = theirNumber(m, number);
  __syncthreads();
  const u32 theirs = shared;
  const bool gives = m.gives && m.number != 0;
  const u64 all = a.bytes, half = min(all, (all / 2 + 15) / 16 * 16);  // as in two-shot
  const u64 first = rank == 1 ? half : 0, last = rank == 0 ? half : all;
  const u64 cut = theirs != 0 ? min(last, first + m.engineBytes) : first;
  const Places places = placesOf(a.send, a.recv);
  char *here = (char*)a.recv, *there = recvOf(a, 1 - rank);
  auto add = [&](u64 begin, u64 end, const char* came, bool both) {
    combineBoth<T>(
        a, allBlocks(), begin, end, places,
        [&](int r) { return r == rank ? (const char*)a.send : came; },
        [&](u64 at, Pack x) {
          storeData(here + at, x);
          if (both) storeData(there + at, x);
        },
        [&](u64 at, u64 x, u32 bytes) {
          storeElements<T>(here + at, x, bytes);
          if (both) storeElements<T>(there + at, x, bytes);
        });
  };
  add(cut, last, sendOf(a, 1 - rank), true);
  u32 copies = 0;
  for (u64 at = first, size; at < cut; at += size) {
    copies++;
    size = min(cut - at, copyBytes(m, at - first));
    if (threadIdx.x == 0) awaitEngine(m, BESIDE_CAME, NCCL4J_BESIDE_COPIES * theirs + copies);
    __syncthreads();
    add(at, at + size, here, !gives);
    if (gives) tellSummed(m, copies);
  }
  // Without copies of the other rank the kernel has stored all sums itself. The engines give them again, since
  // the other rank waits for them.
  if (copies == 0 && gives) tellSummed(m, NCCL4J_BESIDE_COPIES - 1);
  if (leads()) {
    if (m.gives && theirs != 0) awaitEngine(m, BESIDE_GIVEN, theirs);
    if (gives) awaitEngine(m, BESIDE_ENDED, m.number);
    // Also if blocks did not tell of all copies, after a failure: the stream must not wait forever.
    if (gives) storeFlagRelease(own(a, m.engine + BESIDE_SUMMED), NCCL4J_BESIDE_COPIES * (m.number + 1) - 1);
  }
  meetAtEnd(a, number);
  finish(a, number);
}

}  // namespace direct
}  // namespace nccl4j
