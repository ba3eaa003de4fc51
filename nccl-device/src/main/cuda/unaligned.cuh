// Ranges whose addresses are not multiples of 16. Stores need whole packs at such addresses: a range is
// split into whole packs of its target, and edges of less than a pack, which go element by element.
// Sources may begin anywhere: two packs are loaded that hold the 16 bytes, and joined.
#pragma once
#include "memory.cuh"

namespace nccl4j {

// Offsets at which whole packs of a range begin and end.
struct WholePacks {
  u64 begin, end;
};

// target: the address of offset 0.
__device__ __forceinline__ WholePacks wholePacks(u64 target, u64 begin, u64 end) {
  const u64 first = min(end, begin + (0 - (target + begin) & 15));
  return {first, first + (end - first) / 16 * 16};
}

// The offset of an edge's element, which are numbered through both edges; the end of the range if there are not
// so many.
__device__ __forceinline__ u64 edgeAt(const WholePacks& packs, u64 begin, u64 end, u64 number, u32 size) {
  const u64 at = begin + number * size;
  return at < packs.begin ? at : min(end, at + (packs.end - packs.begin));
}

// The 16 bytes that begin some bytes (0 to 15) behind the begin of two packs.
__device__ __forceinline__ Pack join(Pack a, Pack b, u32 skip) {
  const bool far = skip & 8;
  const u64 x = far ? a.hi : a.lo, y = far ? b.lo : a.hi, z = far ? b.hi : b.lo;
  const u32 bits = 8 * (skip & 7);
  return {x >> bits | y << 1 << (63 - bits), y >> bits | z << 1 << (63 - bits)};
}

// Loads packs of a source at some offsets, all loads before the first join. Bytes of other packs that hold a
// part of these are loaded too, and dropped; no page is touched that holds no byte of the packs.
template <int N, class Load, class Offset>
__device__ __forceinline__ void loadAnywhere(Pack (&x)[N], const char* source, u32 n, Load load, Offset offset) {
  const u32 skip = (u64)source + offset(0) & 15;
  Pack next[N] = {};
#pragma unroll
  for (int i = 0; i < N; i++)
    if (i < n) x[i] = load(source + offset(i) - skip);
  if (skip == 0) return;
#pragma unroll
  for (int i = 0; i < N; i++)
    if (i < n) next[i] = load(source + offset(i) - skip + 16);
#pragma unroll
  for (int i = 0; i < N; i++) x[i] = join(x[i], next[i], skip);
}

// Copies whole packs of a target from a source in another phase, two at a time, by some threads.
// SETS: sets the pack that the last iteration may not load. Kernels of messages spill fewer registers with it,
// those of windows without.
template <bool SETS, class Count, class Load, class Store>
__device__ __forceinline__ void copyOutOfPhase(char* to, const char* from, const WholePacks& packs, Count thread,
                                               Count threads, Load load, Store store) {
#pragma unroll 1
  for (u64 at = packs.begin + 16 * thread; at < packs.end; at += 32 * threads) {
    const u32 n = at + 16 * threads < packs.end ? 2 : 1;
    Pack x[2];
    if (SETS) x[1] = {};
    loadAnywhere(x, from, n, load, [&](int i) { return at + 16ull * threads * i; });
    store(to + at, x[0]);
    if (n == 2) store(to + at + 16 * threads, x[1]);
  }
}

// Copies both edges of a range, which have at most 30 bytes, by at least as many threads.
__device__ __forceinline__ void copyEdges(char* to, const char* from, const WholePacks& packs, u64 begin, u64 end,
                                          u64 thread) {
  const u64 at = edgeAt(packs, begin, end, thread, 1);
  if (at < end) *(volatile uint8_t*)(to + at) = *(const volatile uint8_t*)(from + at);
}

// Stores a pack anywhere, in the largest words that the address allows.
template <class Word>
__device__ __forceinline__ void storeWords(char* p, Pack v) {
  constexpr int kWords = 8 / sizeof(Word), kBits = 8 * sizeof(Word) % 64;
#pragma unroll
  for (int i = 0; i < kWords; i++) {
    ((Word*)p)[i] = (Word)(v.lo >> kBits * i);
    ((Word*)p)[kWords + i] = (Word)(v.hi >> kBits * i);
  }
}

__device__ __forceinline__ void storeAnywhere(char* p, Pack v) {
  const u32 low = (u32)(u64)p;
  if ((low & 15) == 0)
    storePack(p, v);
  else if ((low & 7) == 0)
    storeWords<u64>(p, v);
  else if ((low & 3) == 0)
    storeWords<u32>(p, v);
  else if ((low & 1) == 0)
    storeWords<uint16_t>(p, v);
  else
    storeWords<uint8_t>(p, v);
}

}  // namespace nccl4j
