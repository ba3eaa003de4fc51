// NVLS on the ranks' windows, without slots. Between two barriers, a load combines 16 bytes of all
// send windows, and a store writes them to all receive windows. For small data in any memory: lines
// of data and flags, stored into the library's own window of all ranks at once.
//
// The edges of a buffer do not fill packs of 16 bytes. They go rank by rank through the windows'
// unicast addresses. So does the whole buffer if send and receive buffer are aligned differently.
#pragma once
#include "direct_ll.cuh"
#include "multimem.cuh"
#include "nvls_direct_layout.h"

namespace nccl4j {
namespace nvls {

constexpr int kDirectUnroll = 4;

// Access to windows and to the library's own window: by the switch, or emulated.
template <class T>
struct SwitchForm {
  using Access = SwitchAccess<T>;
  static constexpr bool kAliases = true;

  __device__ static Access send(const nccl4jNvlsDirectArguments& a) { return Access(a.sendMulticast); }
  __device__ static Access recv(const nccl4jNvlsDirectArguments& a) { return Access(a.recvMulticast); }
  __device__ static Access lines(const nccl4jNvlsDirectArguments& a) {
    return Access(a.resourcesMulticast);
  }
};

template <class T>
struct EmulatedForm {
  using Access = EmulatedAccess<T, EvenViews>;
  static constexpr bool kAliases = false;

  __device__ static Access send(const nccl4jNvlsDirectArguments& a) { return at(a, a.direct.sendFlat); }
  __device__ static Access recv(const nccl4jNvlsDirectArguments& a) { return at(a, a.direct.recvFlat); }
  __device__ static Access lines(const nccl4jNvlsDirectArguments& a) {
    return at(a, a.direct.resources);
  }

 private:
  __device__ static Access at(const nccl4jNvlsDirectArguments& a, u64 first) {
    return Access({first, a.direct.stride}, a.direct.comm);
  }
};

// Bytes of a buffer.
struct Range {
  u64 begin, end;

  // One of several parts of whole packs; the last parts are shorter or empty.
  __device__ __forceinline__ Range part(int index, int parts) const {
    u64 each = ((end - begin + parts - 1) / parts + 15) & ~15ull;
    u64 from = min(end, begin + index * each);
    return {from, min(end, from + each)};
  }
};

// The aligned packs of a buffer, and the edges before and behind them.
struct Cut {
  Range before, packs, behind;

  // whole is false if packs of the other buffer are aligned differently.
  __device__ __forceinline__ Cut(u64 address, u64 bytes, bool whole) {
    u64 first = whole ? min(bytes, (u64)(-address & 15)) : bytes;
    u64 last = first + ((bytes - first) & ~15ull);
    before = {0, first};
    packs = {first, last};
    behind = {last, bytes};
  }
};

// A thread of the grid moves several packs at once, 512 bytes apart. Calls f(at, left) for the
// first of them, with its offset and the bytes from there to the end of its warp's packs.
template <class F>
__device__ __forceinline__ void forGridPacks(Range r, F f) {
  constexpr u64 kWarp = 512ull * kDirectUnroll;
  const u64 warp = (u64)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  for (u64 at = r.begin + warp * kWarp + threadIdx.x % 32 * 16; at < r.end;
       at += kWarp * gridDim.x * (blockDim.x / 32))
    f(at, (u32)min(r.end - at, kWarp));
}

// Calls f(at, bytes) for each word of eight bytes; the last may be shorter.
template <class F>
__device__ __forceinline__ void forGridWords(Range r, F f) {
  for (u64 at = r.begin + 8ull * (blockIdx.x * blockDim.x + threadIdx.x); at < r.end;
       at += 8ull * gridDim.x * blockDim.x)
    f(at, (u32)min(8ull, r.end - at));
}

// Up to eight bytes of all send windows at a distance from the send buffer, combined rank by rank. A mean's
// floating-point elements are scaled before they are added.
template <class T>
__device__ __noinline__ u64 combineByRanks(const nccl4jDirectArguments& a, u64 at, u32 bytes) {
  const int n = a.comm.nRanks;
  const Touch touch = touchFor<T>(a.op);
  const bool scales = touch.scale && !kWidens<T>;  // as in direct_ll.cuh
  const Inside inside = insideMean<T>(a.op, n);
  Accumulator<T, 1> sum{};
  for (int rank = 0; rank < n; rank++) {
    u64 x[1] = {loadElements<T>(direct::sendOf(a, rank) + at, bytes)};
    if (scales) x[0] = scaleElements<T>(x[0], n);
    if (rank == 0)
      sum.set(x, inside);
    else
      sum.add(a.op, x, inside);
  }
  u64 result[1];
  sum.result(result);
  return touch.divide ? divideElements<T>(result[0], n) : result[0];
}

template <class T>
__device__ __forceinline__ bool areFinite(u64 x) {
  Elements<T> a;
  a.word = x;
  bool finite = true;
#pragma unroll
  for (int i = 0; i < Elements<T>::count; i++) finite &= isfinite(Arithmetic<T>::widen(a.at[i])) != 0;
  return finite;
}

// The mean of floating-point elements from their sum. A sum may overflow where the mean does not: then the
// elements are combined again, rank by rank.
template <class T>
__device__ __forceinline__ u64 meanFromSum(const nccl4jDirectArguments& a, u64 sum, u64 at) {
  return areFinite<T>(sum) ? scaleElements<T>(sum, a.comm.nRanks) : combineByRanks<T>(a, at, 8);
}

// Combines packs of all send windows and calls to(at, pack) for each. skip is the distance of the first from
// the send buffer.
template <class T, class F, class To>
__device__ __forceinline__ void takePacks(const nccl4jNvlsDirectArguments& args, u64 skip, Range r, To to) {
  const nccl4jDirectArguments& a = args.direct;
  const auto sends = F::send(args);
  const Touch touch = touchFor<T>(a.op);
  forGridPacks(r, [&](u64 at, u32 left) {
    u64 x[2 * kDirectUnroll];
    sends.template loadReduce<kDirectUnroll>(a.op, a.send + skip + at, left, x);
#pragma unroll
    for (int i = 0; i < kDirectUnroll; i++) {
      if (512u * i >= left) continue;
      Pack v = {x[2 * i], x[2 * i + 1]};
      if constexpr (Arithmetic<T>::floating) {
        u64 from = skip + at + 512 * i;
        if (touch.scale) v = {meanFromSum<T>(a, v.lo, from), meanFromSum<T>(a, v.hi, from + 8)};
      } else if (touch.divide) {
        v = direct::divided<T>(v, a.comm.nRanks);
      }
      to(at + 512 * i, v);
    }
  });
}

template <class T, class To>
__device__ __forceinline__ void takeWords(const nccl4jDirectArguments& a, u64 skip, Range r, To to) {
  forGridWords(r, [&](u64 at, u32 bytes) { to(at, combineByRanks<T>(a, skip + at, bytes), bytes); });
}

template <class T>
__device__ __forceinline__ void giveWord(const nccl4jDirectArguments& a, u64 at, u64 x, u32 bytes) {
  for (int rank = 0; rank < a.comm.nRanks; rank++)
    storeElements<T>(direct::recvOf(a, rank) + at, x, bytes);
}

// Each head combines its part of all ranks and stores it to all ranks.
template <class T, class F>
__device__ void allReduce(const nccl4jNvlsDirectArguments& args) {
  const nccl4jDirectArguments& a = args.direct;
  if (args.headRank < 0) return;
  const auto recvs = F::recv(args);
  const Cut cut(a.send, a.bytes, ((a.send ^ a.recv) & 15) == 0);
  auto give = [&](u64 at, u64 x, u32 bytes) { giveWord<T>(a, at, x, bytes); };
  takePacks<T, F>(args, 0, cut.packs.part(args.headRank, args.nHeads),
                  [&](u64 at, Pack v) { recvs.store(a.recv + at, v); });
  takeWords<T>(a, 0, cut.before.part(args.headRank, args.nHeads), give);
  takeWords<T>(a, 0, cut.behind.part(args.headRank, args.nHeads), give);
}

// Each rank combines its part of all ranks.
template <class T, class F>
__device__ void reduceScatter(const nccl4jNvlsDirectArguments& args) {
  const nccl4jDirectArguments& a = args.direct;
  const u64 skip = a.comm.rank * a.bytes;
  char* recv = (char*)a.recv;
  const Cut cut(a.send + skip, a.bytes, true);
  auto keep = [&](u64 at, u64 x, u32 bytes) { storeElements<T>(recv + at, x, bytes); };
  takePacks<T, F>(args, skip, cut.packs,
                  [&](u64 at, Pack v) { writeUser<T>(recv + at, v, 16); });
  takeWords<T>(a, skip, cut.before, keep);
  takeWords<T>(a, skip, cut.behind, keep);
}

// Each rank stores its part to all ranks.
template <class F>
__device__ void allGather(const nccl4jNvlsDirectArguments& args) {
  const nccl4jDirectArguments& a = args.direct;
  const auto recvs = F::recv(args);
  const char* send = (const char*)a.send;
  const u64 skip = a.comm.rank * a.bytes;
  const Cut cut(a.recv + skip, a.bytes, true);
  auto word = [&](u64 at, u32 bytes) {
    giveWord<uint8_t>(a, skip + at, loadElements<uint8_t>(send + at, bytes), bytes);
  };
  forGridPacks(cut.packs, [&](u64 at, u32 left) {
    Pack v[kDirectUnroll];
#pragma unroll
    for (int i = 0; i < kDirectUnroll; i++)
      if (512u * i < left) v[i] = readUser<uint8_t>(send + at + 512 * i, 16);
#pragma unroll
    for (int i = 0; i < kDirectUnroll; i++)
      if (512u * i < left) recvs.store(a.recv + skip + at + 512 * i, v[i]);
  });
  forGridWords(cut.before, word);
  forGridWords(cut.behind, word);
}

// Runs between two barriers. Kernels before it write, and kernels after it read, the same windows
// through their unicast addresses.
template <class T, class F>
__device__ __forceinline__ void windows(const nccl4jNvlsDirectArguments& args) {
  const nccl4jDirectArguments& a = args.direct;
  direct::begin(a);
  const auto aliases = F::recv(args);
  const u32 number = direct::epoch(a);
  aliases.crossAliases();
  if constexpr (F::kAliases) fenceSystem();  // orders the fence between addresses with the flag
  direct::arrive(a, number);
  direct::awaitBegin(a, number);
  aliases.crossAliases();
  if (a.operation == DIRECT_ALL_GATHER) {
    allGather<F>(args);
  } else {
    if constexpr (!NCCL4J_NVLS_COPIES) {
      if (a.operation == DIRECT_ALL_REDUCE)
        allReduce<T, F>(args);
      else
        reduceScatter<T, F>(args);
    }
  }
  aliases.crossAliases();
  direct::meetAtEnd(a, number);
  aliases.crossAliases();
  direct::finish(a, number);
}

// Stores each line to all ranks at once, this rank among them. The halves of the window are used in
// turn, as in direct_ll.cuh, whose kernels take turns with these.
template <class T, class F>
__device__ __forceinline__ void lines(const nccl4jNvlsDirectArguments& args) {
  constexpr bool kReduces = !NCCL4J_NVLS_COPIES;
  const nccl4jDirectArguments& a = args.direct;
  direct::begin(a);
  const auto all = F::lines(args);
  all.crossAliases();
  const u32 number = direct::epoch(a);
  const LineFlags flags(number, a.comm.signature);
  const int n = a.comm.nRanks;
  const u64 half = a.lines + (number & 1) * n * a.lineBytes;
  const Touch touch = touchFor<T>(a.op);
  const bool scales = kReduces && touch.scale && !kWidens<T>;  // as in direct_ll.cuh
  const Inside inside = insideMean<T>(a.op, n);
  const char* send = (const char*)a.send;
  char* recv = (char*)a.recv;
  forGridWords({0, a.bytes}, [&](u64 at, u32 bytes) {
    u64 x = loadElements<T>(send + at, bytes);
    all.storeLine(half + a.comm.rank * a.lineBytes + 2 * at,
                  scales ? scaleElements<T>(x, n) : x, flags);
  });
  forGridWords({0, a.bytes}, [&](u64 at, u32 bytes) {
    Accumulator<T, 1> sum{};
    for (int from = 0; from < n; from++) {
      u64 x[1] = {
          direct::awaitLine(a, direct::own(a, half + from * a.lineBytes + 2 * at), from, flags)};
      if constexpr (kReduces) {
        if (from == 0)
          sum.set(x, inside);
        else
          sum.add(a.op, x, inside);
      } else {
        storeElements<T>(recv + from * a.bytes + at, x[0], bytes);
      }
    }
    if constexpr (kReduces) {
      u64 result[1];
      sum.result(result);
      storeElements<T>(recv + at, touch.divide ? divideElements<T>(result[0], n) : result[0], bytes);
    }
  });
  direct::finish(a, number);
}

}  // namespace nvls
}  // namespace nccl4j
