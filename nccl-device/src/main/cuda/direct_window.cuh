// Direct transfers between the ranks' windows, between two barriers: loads of data to combine, stores of
// data to send.
#pragma once
#include "direct.cuh"
#include "unaligned.cuh"

namespace nccl4j {
namespace direct {

// A block's index among the blocks that share some bytes, and their number.
struct Share {
  u32 block, blocks;
};

__device__ __forceinline__ Share allBlocks() { return {blockIdx.x, gridDim.x}; }

// So few blocks of two ranks load twice as much at once. More blocks would congest the links by that.
constexpr u32 kFewBlocks = 32;

// Combines the ranks' packs in their order. N is the number of ranks where it is known, else 0. ANYWHERE: the
// ranks' packs may begin at any address. ENDS: few blocks load the last packs at once too, which takes registers.
template <class T, int N, int UNROLL, bool ANYWHERE = false, bool ENDS = true, class From, class To>
__device__ __forceinline__ void combinePacks(const nccl4jDirectArguments& a, Share share, u64 begin,
                                             u64 end, From from, To to) {
  const Touch touch = touchFor<T>(a.op);
  const int n = N ? N : a.comm.nRanks;
  const bool scales = touch.scale && !kWidens<T>;
  const Inside inside = insideMean<T>(a.op, n);
  const u64 step = 16ull * share.blocks * blockDim.x;
  u64 at = begin + 16ull * (share.block * blockDim.x + threadIdx.x);
  // Of two ranks. All packs are loaded before the first is combined, so more fit in registers. PART: some packs may
  // lie behind the end. One by one, each would cost a memory latency.
  auto both = [&](auto unrolled, auto part) {
    constexpr int U = decltype(unrolled)::value;
    constexpr bool PART = decltype(part)::value;
    for (; at + (PART ? 0 : (U - 1) * step) < end; at += U * step) {
      Pack x[2][U];
#pragma unroll
      for (int r = 0; r < 2; r++)
#pragma unroll
        for (int u = 0; u < U; u++)
          if (!PART || at + u * step < end) x[r][u] = loadData(from(r) + at + u * step);
#pragma unroll
      for (int u = 0; u < U; u++) {
        if (PART && at + u * step >= end) continue;
        Accumulator<T, 2> sum;
#pragma unroll
        for (int r = 0; r < 2; r++) {
          if (scales) x[r][u] = scaled<T>(x[r][u], n);
          const u64 words[2] = {x[r][u].lo, x[r][u].hi};
          if (r == 0)
            sum.set(words, inside);
          else
            sum.add(a.op, words, inside);
        }
        u64 words[2];
        sum.result(words);
        Pack result = {words[0], words[1]};
        if (touch.divide) result = divided<T>(result, n);
        to(at + u * step, result);
      }
    }
  };
  auto loop = [&](auto unrolled) {
    constexpr int U = decltype(unrolled)::value;
    for (; at + (U - 1) * step < end; at += U * step) {
      Accumulator<T, 2> sum[U];
      constexpr int G = N ? N : 4;  // ranks whose loads are in flight at once
      for (int base = 0; base < n; base += G) {
        Pack x[G][U];
#pragma unroll
        for (int r = 0; r < G; r++)
#pragma unroll
          for (int u = 0; u < U; u++)
            if (N || base + r < n) {
              if constexpr (ANYWHERE) {
                Pack one[1];
                loadAnywhere(one, from(base + r), 1, loadData, [&](int) { return at + u * step; });
                x[r][u] = one[0];
              } else {
                x[r][u] = loadData(from(base + r) + at + u * step);
              }
            }
#pragma unroll
        for (int r = 0; r < G; r++)
#pragma unroll
          for (int u = 0; u < U; u++)
            if (N || base + r < n) {
              if (scales) x[r][u] = scaled<T>(x[r][u], n);
              const u64 words[2] = {x[r][u].lo, x[r][u].hi};
              if (base + r == 0)
                sum[u].set(words, inside);
              else
                sum[u].add(a.op, words, inside);
            }
      }
#pragma unroll
      for (int u = 0; u < U; u++) {
        u64 words[2];
        sum[u].result(words);
        Pack result = {words[0], words[1]};
        if (touch.divide) result = divided<T>(result, n);
        to(at + u * step, result);
      }
    }
  };
  if constexpr (N == 2) {
    if (share.blocks <= kFewBlocks) {
      both(std::integral_constant<int, 2 * UNROLL>(), std::false_type());
      if constexpr (ENDS) {
        both(std::integral_constant<int, UNROLL>(), std::true_type());
        return;
      }
    }
  }
  if constexpr (UNROLL > 1) loop(std::integral_constant<int, UNROLL>());
  loop(std::integral_constant<int, 1>());
}

// What lies before and behind the whole packs, some bytes (whole elements) at a time.
template <class T, class From, class To>
__device__ __forceinline__ void combineEdges(const nccl4jDirectArguments& a, Share share, u64 begin,
                                             u64 end, WholePacks packs, u32 most, From from, To to) {
  const Touch touch = touchFor<T>(a.op);
  const int n = a.comm.nRanks;
  const bool scales = touch.scale && !kWidens<T>;
  const Inside inside = insideMean<T>(a.op, n);
  const u64 threads = (u64)share.blocks * blockDim.x;
#pragma unroll 1
  for (u64 e = (u64)share.block * blockDim.x + threadIdx.x;; e += threads) {
    const u64 at = edgeAt(packs, begin, end, e, most);
    if (at >= end) return;
    const u32 bytes = (u32)min((u64)most, end - at);
    Accumulator<T, 1> sum;
    for (int r = 0; r < n; r++) {
      u64 x[1] = {loadElements<T>(from(r) + at, bytes)};
      if (scales) x[0] = scaleElements<T>(x[0], n);
      if (r == 0)
        sum.set(x, inside);
      else
        sum.add(a.op, x, inside);
    }
    u64 result[1];
    sum.result(result);
    to(at, touch.divide ? divideElements<T>(result[0], n) : result[0], bytes);
  }
}

// Where a range is combined to, and whether packs of it begin at packs of the sources.
struct Places {
  u64 target;  // of offset 0
  bool inPhase;
};

__device__ __forceinline__ Places placesOf(u64 source, u64 target) {
  return {target, ((source ^ target) & 15) == 0};
}

template <class T, class From, class ToPack, class ToWord>
__device__ __forceinline__ void combineAll(const nccl4jDirectArguments& a, u64 begin, u64 end,
                                           Places places, From from, ToPack toPack, ToWord toWord) {
  const WholePacks packs = wholePacks(places.target, begin, end);
  if (!places.inPhase) {
    combinePacks<T, 0, 1, true>(a, allBlocks(), packs.begin, packs.end, from, toPack);
  } else if constexpr (sizeof(T) == 1) {  // 16 elements a pack: too much arithmetic and code
    combinePacks<T, 0, 1>(a, allBlocks(), packs.begin, packs.end, from, toPack);
  } else {
    // Eight packs per thread are in flight at once, sixteen in few blocks of two ranks.
    switch (a.comm.nRanks) {
      case 2: combinePacks<T, 2, 4>(a, allBlocks(), packs.begin, packs.end, from, toPack); break;
      case 4: combinePacks<T, 4, 2>(a, allBlocks(), packs.begin, packs.end, from, toPack); break;
      case 8: combinePacks<T, 8, 1>(a, allBlocks(), packs.begin, packs.end, from, toPack); break;
      default: combinePacks<T, 0, 1>(a, allBlocks(), packs.begin, packs.end, from, toPack);
    }
  }
  combineEdges<T>(a, allBlocks(), begin, end, packs, sizeof(T), from, toWord);
}

// The same for two ranks, on some of the blocks. Sources out of phase are combined in words, since the
// kernels beside copy engines have no registers left for more.
template <class T, class From, class ToPack, class ToWord>
__device__ __forceinline__ void combineBoth(const nccl4jDirectArguments& a, Share share, u64 begin,
                                            u64 end, Places places, From from, ToPack toPack,
                                            ToWord toWord) {
  const WholePacks packs = places.inPhase ? wholePacks(places.target, begin, end) : WholePacks{begin, begin};
  constexpr bool kSmall = sizeof(T) == 1;
  combinePacks<T, kSmall ? 0 : 2, kSmall ? 1 : 4, false, false>(a, share, packs.begin, packs.end, from, toPack);
  combineEdges<T>(a, share, begin, end, packs, places.inPhase ? sizeof(T) : 8, from, toWord);
}

template <class T>
__device__ __forceinline__ void reduceWindows(const nccl4jDirectArguments& a) {
  begin(a);
  const u32 number = epoch(a);
  const int n = a.comm.nRanks, rank = a.comm.rank;
  arrive(a, number);
  awaitBegin(a, number);
  if (a.twoShot) {
    // Parts of whole packs; the last rank's has the rest.
    const u64 all = a.bytes;
    u64 part = (all / n + 15) / 16 * 16;
    u64 begin = min(all, rank * part);
    u64 end = rank == n - 1 ? all : min(all, begin + part);
    combineAll<T>(
        a, begin, end, placesOf(a.send, a.recv), [&](int r) { return sendOf(a, r); },
        [&](u64 at, Pack x) {
          for (int d = 0; d < n; d++) {
            int to = rank + d < n ? rank + d : rank + d - n;
            storeData(recvOf(a, to) + at, x);
          }
        },
        [&](u64 at, u64 x, u32 bytes) {
          for (int d = 0; d < n; d++) storeElements<T>(recvOf(a, d) + at, x, bytes);
        });
  } else if (a.operation != DIRECT_REDUCE || rank == a.root) {
    u64 skip = a.operation == DIRECT_REDUCE_SCATTER ? rank * a.bytes : 0;
    combineAll<T>(
        a, 0, a.bytes, placesOf(a.send + skip, a.recv), [&](int r) { return sendOf(a, r) + skip; },
        [&](u64 at, Pack x) { storeData((char*)a.recv + at, x); },
        [&](u64 at, u64 x, u32 bytes) { storeElements<T>((char*)a.recv + at, x, bytes); });
  }
  meetAtEnd(a, number);
  finish(a, number);
}

// Copies a range to some ranks, in order of their distance from this rank. Warps start at different ranks.
// The range begins at the same place of a pack on all of them. ANYWHERE: sources may begin at any address.
template <int UNROLL, bool ANYWHERE, class From, class To>
__device__ __forceinline__ void copyPacks(const nccl4jDirectArguments& a, WholePacks packs, int nearest,
                                          int end, From from, To to) {
  const int n = a.comm.nRanks, rank = a.comm.rank;
  const u64 step = 16ull * gridDim.x * blockDim.x;
  auto place = [&](int d) { return rank + d < n ? rank + d : rank + d - n; };
  const int first = nearest + (int)((threadIdx.x / 32 + blockIdx.x) % (u32)(end - nearest));
  const bool same = from(0) == from(1);
  u64 at = packs.begin + 16 * ((u64)blockIdx.x * blockDim.x + threadIdx.x);
  auto loop = [&](auto unrolled) {
    constexpr int U = decltype(unrolled)::value;
    for (; at + (U - 1) * step < packs.end; at += U * step) {
      Pack x[U];
      int d = first;
      do {
        const char* source = from(place(d));
        if (d == first || !same) {
          if constexpr (ANYWHERE) {
            loadAnywhere(x, source, U, loadData, [&](int u) { return at + u * step; });
          } else {
#pragma unroll
            for (int u = 0; u < U; u++) x[u] = loadData(source + at + u * step);
          }
        }
        char* target = to(place(d));
#pragma unroll
        for (int u = 0; u < U; u++) storeData(target + at + u * step, x[u]);
        d = d + 1 < end ? d + 1 : nearest;
      } while (d != first);
    }
  };
  loop(std::integral_constant<int, UNROLL>());
  loop(std::integral_constant<int, 1>());
}

template <int UNROLL, class From, class To>
__device__ __forceinline__ void copy(const nccl4jDirectArguments& a, bool inPhase, int nearest,
                                     int end, From from, To to) {
  const int n = a.comm.nRanks, rank = a.comm.rank;
  const WholePacks packs = wholePacks((u64)to(rank), 0, a.bytes);
  if (inPhase)
    copyPacks<UNROLL, false>(a, packs, nearest, end, from, to);
  else
    copyPacks<2, true>(a, packs, nearest, end, from, to);
  const u64 at = edgeAt(packs, 0, a.bytes, (u64)blockIdx.x * blockDim.x + threadIdx.x, 1);
  if (at >= a.bytes) return;
  for (int d = nearest; d < end; d++) {
    const int r = rank + d < n ? rank + d : rank + d - n;
    *(volatile uint8_t*)(to(r) + at) = *(const volatile uint8_t*)(from(r) + at);
  }
}

constexpr u64 kOwnFirstBytes = 1 << 20;

__device__ __forceinline__ void copyWindows(const nccl4jDirectArguments& a) {
  begin(a);
  const u32 number = epoch(a);
  const int n = a.comm.nRanks, rank = a.comm.rank;
  const bool gathers = a.operation == DIRECT_ALL_GATHER;
  const bool inPhase = ((a.send ^ a.recv + rank * a.bytes) & 15) == 0 && (gathers || a.bytes % 16 == 0);
  // In place, the own part is already in position.
  const bool inPlace = gathers && a.send == a.recv + rank * a.bytes;
  // Little data is copied to its own place while the others arrive. More would delay them.
  const bool ownFirst = !inPlace && a.bytes <= kOwnFirstBytes;
  auto from = [&](int r) { return (const char*)a.send + (gathers ? 0 : r * a.bytes); };
  auto to = [&](int r) { return recvOf(a, r) + rank * a.bytes; };
  arrive(a, number);
  if (ownFirst) copy<2>(a, inPhase, 0, 1, from, to);
  awaitBegin(a, number);
  const int nearest = inPlace || ownFirst ? 1 : 0;
  if (gathers)
    copy<4>(a, inPhase, nearest, n, from, to);
  else
    copy<4>(a, inPhase, nearest, n, from, to);
  meetAtEnd(a, number);
  finish(a, number);
}

}  // namespace direct
}  // namespace nccl4j
