// A single flight: every rank writes its data for another as lines of 8 bytes of data and 8 of flags
// into that rank's part of the library's own window, and polls its own part. For small data, in any
// memory.
//
// Two halves are used in turn. A rank writes into a half again two kernels later. By then it has received
// all lines of the kernel between. So every other rank has begun that kernel, and has ended the one
// before. This holds only for exchanges of all ranks with all ranks.
#pragma once
#include "direct.cuh"

namespace nccl4j {
namespace direct {

// Waits for a line and returns its data.
__device__ __forceinline__ u64 awaitLine(const nccl4jDirectArguments& a, const char* line, int from,
                                         LineFlags flags) {
  uint4 v = loadLine(line);
  if (flags.match(v)) return (u64)v.z << 32 | v.x;
  Patience patience(a.comm);
  do {
    if (patience.exhausted(from, blockIdx.x, 0, flags.step, [&] { return flags.unlike(v); })) break;
    v = loadLine(line);
  } while (!flags.match(v));
  return (u64)v.z << 32 | v.x;
}

// The use of the elements of all ranks: a kernel stores or combines them.
enum class Received { STORED, COMBINED };

template <class T, Received RECEIVED>
__device__ __forceinline__ void ll(const nccl4jDirectArguments& a) {
  constexpr bool combines = RECEIVED == Received::COMBINED;
  begin();
  const u32 number = epoch(a);
  const LineFlags flags(number, a.comm.signature);
  const int n = a.comm.nRanks, rank = a.comm.rank;
  const u64 half = a.lines + (number & 1) * n * a.lineBytes;
  const u64 step = (u64)gridDim.x * blockDim.x;
  const u64 first = (u64)blockIdx.x * blockDim.x + threadIdx.x;
  const bool parts = a.operation == DIRECT_REDUCE_SCATTER || a.operation == DIRECT_ALL_TO_ALL;
  const Touch touch = touchFor<T>(a.op);
  // Means of types that widen are scaled where they are combined; what travels is as the user has it.
  const bool scales = combines && touch.scale && !kWidens<T>, divides = combines && touch.divide;
  const Inside inside = insideMean<T>(a.op, n);
  const char* send = (const char*)a.send;
  char* recv = (char*)a.recv;
  auto mine = [&](int to, u64 at) {
    u64 x = loadElements<T>(send + (parts ? to * a.bytes : 0) + at, (u32)min(8ull, a.bytes - at));
    return scales ? scaleElements<T>(x, n) : x;
  };
  for (u64 at = first * 8; at < a.bytes; at += step * 8) {
    u64 same = parts ? 0 : mine(0, at);
    for (int d = 1; d < n; d++) {
      int to = rank + d < n ? rank + d : rank + d - n;
      storeLine(peer(a, to, half + rank * a.lineBytes + 2 * at), parts ? mine(to, at) : same, flags);
    }
  }
  for (u64 at = first * 8; at < a.bytes; at += step * 8) {
    const u32 bytes = (u32)min(8ull, a.bytes - at);
    const u64 kept = mine(rank, at);
    Accumulator<T, 1> sum{};
    for (int from = 0; from < n; from++) {
      u64 x = from == rank
                  ? kept
                  : awaitLine(a, own(a, half + from * a.lineBytes + 2 * at), from, flags);
      u64 b[1] = {x};
      if (!combines)
        storeElements<T>(recv + from * a.bytes + at, x, bytes);
      else if (from == 0)
        sum.set(b, inside);
      else
        sum.add(a.op, b, inside);
    }
    if constexpr (combines) {
      u64 result[1];
      sum.result(result);
      storeElements<T>(recv + at, divides ? divideElements<T>(result[0], n) : result[0], bytes);
    }
  }
  finish(a, number);
}

}  // namespace direct
}  // namespace nccl4j
