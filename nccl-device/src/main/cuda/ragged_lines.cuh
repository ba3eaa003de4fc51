// Elements in lines: 8 bytes of data with their flags in one store. A rank sends its few elements for another without
// knowing where they go there, into lines of its own in the other's window. The receiver brings them to their place once
// it has the counts of all. So one flight brings both, and no flags follow. The lines have two halves, as those of the
// counts.
//
// Lines are numbered through the ranks in turn, so that the threads of all blocks have as many.
#pragma once
#include "ragged_counts.cuh"

namespace nccl4j {
namespace ragged {

// Lines that a thread moves at once.
constexpr u32 kLineFlights = 4;

// Loads up to 8 bytes from anywhere. No word is touched that has none of them.
__device__ __forceinline__ u64 loadBytes(const char* p, u32 bytes) {
  const u32 skip = (u64)p & 7;
  const u64* word = (const u64*)(p - skip);
  const u64 first = word[0], second = skip + bytes > 8 ? word[1] : 0;
  return first >> 8 * skip | second << 1 << (63 - 8 * skip);
}

template <class Word>
__device__ __forceinline__ void storeParts(char* p, u64 x, u32 bytes) {
#pragma unroll
  for (u32 i = 0; i < 8 / sizeof(Word); i++)
    if (i * sizeof(Word) < bytes) ((Word*)p)[i] = (Word)(x >> 8 * sizeof(Word) * i % 64);
}

// Stores up to 8 bytes anywhere, in the largest words that address and number allow.
__device__ __forceinline__ void storeBytes(char* p, u64 x, u32 bytes) {
  const u32 low = (u32)(u64)p | bytes;
  if ((low & 7) == 0)
    storeParts<u64>(p, x, 8);
  else if ((low & 3) == 0)
    storeParts<u32>(p, x, bytes);
  else if ((low & 1) == 0)
    storeParts<uint16_t>(p, x, bytes);
  else
    storeParts<uint8_t>(p, x, bytes);
}

// The offset of a line in a rank's window.
__device__ __forceinline__ u64 lineAt(const nccl4jRaggedArguments& a, u64 half, u32 source, u32 line) {
  return a.lines + 2 * a.lineBytes * (half * a.comm.nRanks + source) + 16ull * line;
}

// The lines of all turns, which a thread goes through.
class Walk {
 public:
  // upTo: lines of the first turns, up to each.
  __device__ __forceinline__ explicit Walk(const u32* upTo) : upTo_(upTo) {}

  // Finds the turn of a line, and its number there. Lines do not get smaller.
  __device__ __forceinline__ void go(u32 to) {
    while (to >= upTo_[turn_]) ahead_ = upTo_[turn_++];
    line_ = to - ahead_;
  }

  __device__ __forceinline__ u32 turn() const { return turn_; }
  __device__ __forceinline__ u32 line() const { return line_; }

 private:
  const u32* upTo_;
  u32 turn_ = 0, ahead_ = 0, line_ = 0;
};

__device__ __forceinline__ u32 threadOfAll() { return blockIdx.x * blockDim.x + threadIdx.x; }

// Sends the elements that go in lines, in an all-gather to all other ranks. All threads.
__device__ __forceinline__ void sendLines(const nccl4jRaggedArguments& a, const Shared& s, u64 half, LineFlags flags) {
  const u32 n = a.comm.nRanks, me = a.comm.rank, step = gridDim.x * blockDim.x;
  if (n == 1) return;
  const u32 all = a.gathers ? s.sent[0] : s.sent[n - 2], targets = a.gathers ? n - 1 : 1;
  Walk walk(s.sent);
#pragma unroll 1
  for (u32 first = threadOfAll(); first < all; first += kLineFlights * step) {
    u64 x[kLineFlights], at[kLineFlights];
    u32 turn[kLineFlights];
#pragma unroll
    for (u32 f = 0; f < kLineFlights; f++) {
      if (first + f * step >= all) break;
      walk.go(first + f * step);
      turn[f] = walk.turn();
      at[f] = lineAt(a, half, me, walk.line());
      const u32 target = targetOf(a, turn[f]);
      const u64 begin = 8ull * walk.line(), bytes = s.own[target] * a.elementBytes;
      x[f] = loadBytes((const char*)a.send + s.from[target] * a.elementBytes + begin, (u32)min(8ull, bytes - begin));
    }
#pragma unroll
    for (u32 f = 0; f < kLineFlights; f++) {
      if (first + f * step >= all) break;
#pragma unroll 1
      for (u32 t = 0; t < targets; t++) storeLine(peer(a, targetOf(a, turn[f] + t), at[f]), x[f], flags);
    }
  }
}

// Brings the elements that come in lines to their places. All threads.
__device__ __forceinline__ void takeLines(const nccl4jRaggedArguments& a, const Shared& s, u64 half, Lines& lines) {
  const u32 n = a.comm.nRanks, me = a.comm.rank, step = gridDim.x * blockDim.x;
  if (n == 1) return;
  const u32 all = s.taken[n - 2];
  Walk walk(s.taken);
#pragma unroll 1
  for (u32 first = threadOfAll(); first < all; first += kLineFlights * step) {
    uint4 v[kLineFlights];
    const char* from[kLineFlights];
    char* to[kLineFlights];
    u32 bytes[kLineFlights], source[kLineFlights];
#pragma unroll
    for (u32 f = 0; f < kLineFlights; f++) {
      if (first + f * step >= all) break;
      walk.go(first + f * step);
      source[f] = sourceOf(a, walk.turn());
      from[f] = own(a, lineAt(a, half, source[f], walk.line()));
      v[f] = loadLine(from[f]);
      const u64 begin = 8ull * walk.line();
      bytes[f] = (u32)min(8ull, s.counts[source[f]][me] * a.elementBytes - begin);
      to[f] = own(a, a.received) + s.ahead[source[f]] * a.elementBytes + begin;
    }
#pragma unroll
    for (u32 f = 0; f < kLineFlights; f++) {
      if (first + f * step >= all) break;
      const u64 x = lines.await(v[f], from[f], source[f]);
      if (lines.dead()) return;
      storeBytes(to[f], x, bytes[f]);
    }
  }
}

}  // namespace ragged
}  // namespace nccl4j
