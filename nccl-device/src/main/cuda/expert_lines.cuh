// Tokens on their way, as lines of 128 bytes that arrive whole: seven packs of the token, then a scale, then
// the number of the dispatch, which is the line's flag. Eight lanes of a warp store or load a line in one
// instruction. So the receiver needs no other word to know that a token is there.
//
// A quad is the four lines that a warp moves at once, with 28 packs. As fp8 a scale belongs to eight packs. A
// quad is quantised from the 32 packs that begin at the last whole group, so the lanes of line i have group i of
// these, and line i carries its scale. Two quads may carry the same scale.
#pragma once
#include "expert_fp8.cuh"

namespace nccl4j {
namespace experts {

constexpr u32 kLinePacks = 7;
constexpr u32 kQuadPacks = 4 * kLinePacks;
constexpr u32 kLineBytes = 128;
constexpr u32 kGroupPacks = NCCL4J_EXPERT_GROUP / 16;  // of fp8

// A lane's place in the quads of a token.
struct Lane {
  u32 line, part;  // the line of a quad, and the lane's part of the line

  __device__ __forceinline__ Lane() : line(threadIdx.x % 32 / 8), part(threadIdx.x % 8) {}

  __device__ __forceinline__ bool flags() const { return part == kLinePacks; }

  // The first pack of this lane's line.
  __device__ __forceinline__ u32 begin(u32 quad) const { return quad * kQuadPacks + line * kLinePacks; }

  // The pack that this lane moves, unless it has the flag.
  __device__ __forceinline__ u32 pack(u32 quad) const { return begin(quad) + part; }

  __device__ __forceinline__ u32 offset(u32 quad) const { return (quad * 4 + line) * kLineBytes + part * 16; }
};

__device__ __forceinline__ u32 quadsOf(u32 packs) { return (packs + kQuadPacks - 1) / kQuadPacks; }

// The first group of a quad's scales.
__device__ __forceinline__ u32 firstGroup(u32 quad) { return quad * kQuadPacks / kGroupPacks; }

__device__ __forceinline__ u32 orOfWarp(u32 x) {
#pragma unroll
  for (u32 distance = 16; distance > 0; distance /= 2) x |= __shfl_xor_sync(~0u, x, distance);
  return x;
}

__device__ __forceinline__ u64 shuffled(u64 x, u32 from) {
  return (u64)__shfl_sync(~0u, (u32)(x >> 32), from) << 32 | __shfl_sync(~0u, (u32)x, from);
}

// Quads that a warp moves at once: as many as leave work for all warps.
constexpr u32 kFlights = 4;

__device__ __forceinline__ u32 quadsAtOnce(u32 all, u32 warps, u32 most = kFlights) {
  return min(most, max(1u, all / warps));
}

// The expert of a token's entry, or none if there is no such entry.
__device__ __forceinline__ int expertOf(const nccl4jExpertArguments& a, u32 token, u32 k) {
  return k < a.topK ? ((const int*)a.experts)[token * a.topK + k] : -1;
}

// The ranks that have experts of a token, in turn. All lanes of a warp, with the experts of its first entries.
__device__ __forceinline__ u32 targetsOf(const nccl4jExpertArguments& a, u32 token, int expert) {
  u32 targets = 0, k = threadIdx.x % 32;
#pragma unroll 1
  while (k < a.topK) {
    if (expert >= 0 && expert < (int)a.nExperts) targets |= 1u << (u32)expert / a.localExperts;
    k += 32;
    expert = expertOf(a, token, k);
  }
  targets = orOfWarp(targets);
  const u32 nRanks = a.comm.nRanks, next = a.comm.rank + 1;
  return next == nRanks ? targets : targets >> next | (targets & ((1u << next) - 1)) << (nRanks - next);
}

// What a lane sends of a quad: its pack, or behind the packs a scale.
struct Piece {
  Pack pack;
  float scale;
};

// Loads and converts a lane's part of quads of a token.
template <class T, Wire WIRE>
struct Source;

template <class T>
struct Source<T, Wire::SAME> {
  static constexpr u32 kFlights = 4;
  Pack x[kFlights];

  __device__ __forceinline__ void load(const char* row, u32 quad, u32 end, u32 packs) {
    const Lane lane;
#pragma unroll
    for (u32 f = 0; f < kFlights; f++)
      if (quad + f < end && !lane.flags() && lane.pack(quad + f) < packs)
        x[f] = loadData(row + lane.pack(quad + f) * 16);
  }

  __device__ __forceinline__ Piece piece(u32 f, u32) { return {x[f], 0}; }
};

template <class T>
struct Source<T, Wire::FP8> {
  static constexpr u32 kPacks = Fp8<T>::kPacks;
  static constexpr u32 kFlights = 4 / kPacks;
  Elements<T> x[kFlights][kPacks];

  __device__ __forceinline__ void load(const char* row, u32 quad, u32 end, u32 packs) {
#pragma unroll
    for (u32 f = 0; f < kFlights; f++) {
      if (quad + f >= end) break;
      const u32 pack = firstGroup(quad + f) * kGroupPacks + threadIdx.x % 32;
#pragma unroll
      for (u32 p = 0; p < kPacks; p++)
        x[f][p].pack = pack < packs ? loadData(row + (pack * kPacks + p) * 16) : Pack{0, 0};
    }
  }

  __device__ __forceinline__ Piece piece(u32 f, u32 quad) {
    const Fp8<T> made(x[f]);
    // Of the packs of this lane's group this lane's line has others.
    const Lane lane;
    const u32 from = min(31u, lane.pack(quad) - firstGroup(quad) * kGroupPacks);
    return {{shuffled(made.pack.lo, from), shuffled(made.pack.hi, from)}, made.scale};
  }
};

// Keeps a warp's stores to other ranks apart, so that a block sends no faster than the links take from all blocks.
// Stores that the links do not take yet hold up the loads of a multiprocessor's other warps.
class Pace {
 public:
  __device__ __forceinline__ Pace(const nccl4jExpertArguments& a, const Crew& crew)
      : cycles_(a.pace * crew.warps), due_(clock64()) {}

  // Before a store. All lanes of a warp.
  __device__ __forceinline__ void keep() {
    if (cycles_ == 0) return;
    while (clock64() - due_ < 0) __nanosleep(kShortPause);
    __syncwarp();
    due_ += cycles_;
  }

 private:
  static constexpr u32 kShortPause = 20;  // nanoseconds
  const u32 cycles_;
  long long due_;
};

// Sends this block's tokens.
template <class T, Wire WIRE>
__device__ __forceinline__ void sendTokens(const nccl4jExpertArguments& a, u64 half, u64 number, const Crew& crew) {
  using From = Source<T, WIRE>;
  const Lane lane;
  const u32 packs = a.wireRow / 16, quads = quadsOf(packs), tokens = tokensOfBlock(a.tokenCount);
  const u32 each = quadsAtOnce(tokens * quads, crew.warps, From::kFlights), parts = (quads + each - 1) / each;
  u32 item = crew.warp(), token, first, end;
  int expert;
  From from;
  auto load = [&] {
    if (item >= tokens * parts) return false;
    token = blockIdx.x + item / parts * gridDim.x;
    first = item % parts * each;
    end = min(quads, first + each);
    expert = expertOf(a, token, threadIdx.x % 32);
    from.load((const char*)a.send + (u64)token * a.rowBytes, first, end, packs);
    return true;
  };
  bool any = load();
  Pace pace(a, crew);
#pragma unroll 1
  while (any) {
    const u32 targets = targetsOf(a, token, expert);
    const u64 to = stagedAt(a, half, a.comm.rank, token);
#pragma unroll
    for (u32 f = 0; f < From::kFlights; f++) {
      const u32 quad = first + f;
      if (quad >= end) break;
      const Piece piece = from.piece(f, quad);
      const Pack x = lane.flags() ? Pack{__float_as_uint(piece.scale), number} : piece.pack;
#pragma unroll 1
      for (u32 left = targets; left != 0; left &= left - 1) {
        const u32 target = inTurn(a, __ffs(left) - 1);
        if (target != (u32)a.comm.rank) pace.keep();
        if (lane.begin(quad) < packs) storePack(peer(a, target, to + lane.offset(quad)), x);
        __syncwarp();
      }
    }
    item += crew.warps;
    any = load();
  }
}

// Quads of a token that arrive at this rank. All lanes of a warp.
template <Wire WIRE>
class Arriving {
 public:
  __device__ __forceinline__ Arriving(const nccl4jExpertArguments& a, u64 number) : a_(a), number_(number) {}

  // Begins to load quads of a token whose lines begin at a place of the window.
  __device__ __forceinline__ void begin(const char* from, u32 first, u32 quads) {
    from_ = from;
    first_ = first;
    wanted_ = (1u << quads) - 1;
    __syncwarp();  // so that a line is loaded by one instruction
    load();
  }

  // True if all are there. Loads those again that are not.
  __device__ __forceinline__ bool look() {
    u32 late = 0;
#pragma unroll
    for (u32 f = 0; f < kFlights; f++)
      if (wants(f) && lane_.flags() && x_[f].hi != number_) late |= 1u << f;
    wanted_ = orOfWarp(late);
    load();
    return wanted_ == 0;
  }

  // Stores those of a number to a row.
  __device__ __forceinline__ void store(u64 row, u32 quads) const {
    const u32 packs = a_.wireRow / 16, groups = a_.hidden / NCCL4J_EXPERT_GROUP;
    char* to = (char*)a_.received + row * a_.wireRow;
#pragma unroll
    for (u32 f = 0; f < kFlights; f++) {
      if (f >= quads) break;
      const u32 pack = lane_.pack(first_ + f);
      if (!lane_.flags()) {
        if (pack < packs) storeData(to + pack * 16, x_[f]);
      } else if (WIRE == Wire::FP8) {
        const u32 group = firstGroup(first_ + f) + lane_.line;
        if (group < groups) ((float*)a_.scales)[row * groups + group] = __uint_as_float((u32)x_[f].lo);
      }
    }
  }

 private:
  __device__ __forceinline__ bool wants(u32 f) const {
    return (wanted_ & 1u << f) && lane_.begin(first_ + f) < a_.wireRow / 16;
  }

  __device__ __forceinline__ void load() {
#pragma unroll
    for (u32 f = 0; f < kFlights; f++)
      if (wants(f)) x_[f] = loadPack(from_ + lane_.offset(first_ + f));
  }

  const nccl4jExpertArguments& a_;
  const u64 number_;
  const Lane lane_;
  Pack x_[kFlights];
  const char* from_;
  u32 first_, wanted_ = 0;
};

}  // namespace experts
}  // namespace nccl4j
