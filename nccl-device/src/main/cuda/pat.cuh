// Parallel aggregated trees (PAT), as on the host device (class PatTrees): the part of every rank has a binomial
// tree of its own. At each distance 1, 2, 4, ... a rank exchanges with one rank on either side, and what goes there,
// of many trees, shares a slot.
//
// Row 4 of algorithms.h: PAT, pat, pat, AT_DISTANCES, NONE
#pragma once
#include "share.cuh"
#include "step.cuh"

namespace nccl4j {

// The trees as a rank sees them. In each it is o places behind the root; there it has a child at distance
// d = 1 << level if o is a multiple of 2 * d and o + d is less than the number of ranks. So it has a child at this
// distance in the trees where o is 0, 2 * d, 4 * d, ..., and is one where o is d, 3 * d, 5 * d, ...
struct PatTrees {
  const u32 n, rank, levels;  // a level for each distance

  __device__ PatTrees(u32 n, u32 rank) : n(n), rank(rank), levels(bits(n - 1)) {}

  __device__ static u32 bits(u32 x) { return 32 - __clz(x); }

  // Trees that share a message.
  __device__ u32 pieces(u32 level) const { return (n + (1u << level) - 1) >> (level + 1); }

  // The most bytes of a tree's piece of a message.
  __device__ u32 chunk(u32 sliceBytes) const { return sliceBytes / pieces(0) & ~15u; }

  // The root of the tree in which this rank is so many places behind it.
  __device__ u32 root(u32 places) const { return rank >= places ? rank - places : rank + n - places; }

  // A bit for each of the lowest levels at which this rank has a child in that tree.
  __device__ u32 children(u32 places, u32 below) const { return (1u << min(below, bits(n - 1 - places))) - 1; }
};

// The rank of an entry of the fan. First those that send to this rank, then those that it sends to; by distance.
__device__ __forceinline__ int patPeer(const nccl4jCommunicator& comm, int entry, int levels, bool gathers) {
  const int distance = 1 << entry % levels;
  return (comm.rank + (entry >= levels == gathers ? distance : comm.nRanks - distance)) % comm.nRanks;
}

constexpr u32 kMostPieces = 32;  // of a step: a thread of the scheduling warp describes each

// A step of a message of an all-gather: pieces, from a first on, of what this rank has received at the distance of a
// level, or of what it sends there. Each of the first threads copies a piece. The first message, of its own part, also
// fills its place in the result.
__device__ __forceinline__ PieceStep patGather(const PatTrees& trees, const nccl4jCollectiveArguments& a,
                                               PieceStep step, u32 level, bool posting, u64 at, u32 first, u32 entry) {
  const u32 pieces = trees.pieces(level), piece = first + entry;
  const bool last = pieces - first <= kMostPieces;
  const char* own = (const char*)a.send + at;
  step.kind = STEP_PIECES;
  step.pieces = last ? pieces - first : kMostPieces;
  step.slots.recvAt = step.slots.sendAt = first * step.apart;
  step.slots.releases = step.slots.posts = last;
  if (!posting) {
    step.recvMask = 1u << level;
    step.dst = (char*)a.recv + trees.root((2 * min(piece, pieces - 1) + 1) << level) * a.bytes + at;
    return step;
  }
  step.sendMask = 1u << (trees.levels + level);
  step.slots.filled = (pieces - 1) * step.apart + step.bytes;
  char* kept = (char*)a.recv + trees.root(piece < pieces ? 2 * piece << level : 0) * a.bytes + at;
  step.src = piece == 0 || piece >= pieces ? own : kept;
  if (level == trees.levels - 1 && kept != own) {  // has one piece; kept is the place of the own part on all threads
    step.pieces++;
    if (piece == pieces) step.dst = kept;
  }
  return step;
}

// The sum of a tree's piece: to the slot for the parent at the distance of a stage, or to the receive buffer.
__device__ __forceinline__ PieceStep patReduce(const PatTrees& trees, const nccl4jCollectiveArguments& a,
                                               PieceStep step, u32 stage, u32 i, u32 pieces, u32 ahead, u64 at,
                                               u32 entry) {
  const bool sends = stage < trees.levels, last = i == pieces - 1;
  const u32 behind = sends ? (2 * i + 1) << stage : 0;
  step.src = (const char*)a.send + trees.root(behind) * a.bytes + at;
  step.scale = SCALE_OWN;
  step.recvMask = trees.children(behind, stage);
  step.slots.recvAt = (behind >> (min(entry, trees.levels) + 1)) * step.apart;
  step.slots.recvAhead = ahead;
  step.slots.releases = step.last = !sends;
  if (sends) {
    step.sendMask = 1u << (trees.levels + stage);
    step.slots.sendAt = i * step.apart;
    step.slots.posts = last;
    step.slots.filled = i * step.apart + step.bytes;
  } else {
    step.dst = (char*)a.recv + at;
  }
  return step;
}

// All-gather down the trees, the greatest distance first: a rank sends its own part and those that it has received
// to nearer ranks. Reduce-scatter up the trees, the smallest distance first: a rank adds its own data to its
// children's, which stay in their slots until it has sent all sums of the chunk, and sends the sums to its parents.
// Chunks follow each other a distance apart, which of a reduce-scatter takes as many slots as there are distances, and
// one more to send into. With more distances a chunk begins when the one before it is done.
template <class P>
__device__ __forceinline__ void pat(P& p, const nccl4jCollectiveArguments& a, int channel) {
  constexpr bool gathers = !kCombines;  // families that combine run no all-gather
  const PatTrees trees(a.comm.nRanks, a.comm.rank);
  const u32 levels = trees.levels;
  const Share share(a.bytes, a.nChannels, channel);
  const u32 chunk = trees.chunk(a.sliceBytes);
  const u32 chunks = (u32)((share.bytes + chunk - 1) / chunk);
  const u32 apart = gathers || levels < NCCL4J_SLOTS;
  if (!gathers && apart && levels + 1 > NCCL4J_SLOTS - NCCL4J_UNTOLD_STEPS) p.remind();
  for (u32 wave = 0; wave < chunks + apart * levels; wave++) {
    for (u32 stage = 0; stage <= levels; stage++) {
      const u32 behind = apart * stage;
      if (wave < behind || wave - behind >= chunks) continue;
      const u64 at = share.begin + (u64)(wave - behind) * chunk;
      PieceStep step;
      step.bytes = (u32)min((u64)chunk, share.begin + share.bytes - at);
      step.apart = (step.bytes + 15) & ~15u;
      if constexpr (gathers) {
        for (u32 posting = stage == 0; posting < (stage == levels ? 1 : 2); posting++) {
          const u32 level = levels - stage - posting;
          for (u32 first = 0; first < trees.pieces(level); first += kMostPieces)
            p.run(patGather(trees, a, step, level, posting, at, first, p.entry()));
        }
      } else {
        const u32 pieces = stage < levels ? trees.pieces(stage) : 1;
        for (u32 i = 0; i < pieces; i++)
          p.run(patReduce(trees, a, step, stage, i, pieces, min(wave, apart * levels) - behind, at, p.entry()));
      }
    }
  }
}

}  // namespace nccl4j
