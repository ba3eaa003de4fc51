// The algorithms, as sequences of steps for the primitives of any protocol. Each function has one
// call of run, since that is where a protocol's code is inlined.
#pragma once
#include "step.cuh"

namespace nccl4j {

// Steps of an exchange of all with all that need not be told: fewer than there are slots, since the
// next exchange has to begin before this one's are known to be taken.
constexpr u64 kMutualSlices = 2;

// A channel's share of a buffer.
struct Share {
  u64 begin, bytes;

  __device__ Share(u64 total, u32 nChannels, u32 channel) {
    u64 each = ((total + nChannels - 1) / nChannels + 127) & ~127ull;
    begin = min((u64)total, each * channel);
    bytes = min((u64)total - begin, each);
  }
};

__device__ __forceinline__ u64 evenPart(u64 bytes, int parts) {
  return ((bytes + parts - 1) / parts + 127) & ~127ull;
}

// The rounds in which a channel of a ring goes through the data: through a share of its own, or, since
// channels do not keep one pace and what the slow ones have left when the others are done does not fill
// the links, each time through the next round of all. Then the first rank of the ring counts rounds
// out, each one ahead, and the number goes round with the data. Which channel has a round makes no
// difference to its sums, as all rings are the same then.
template <class P>
class Rounds {
 public:
  u64 base = 0, rest = 0, most = 0;  // from where on, what is left there, the most of a chunk

  // A round has so many chunks.
  __device__ Rounds(P& p, const nccl4jCollectiveArguments& a, int channel, int chunks, bool leads)
      : p_(p), a_(a), chunks_(chunks), leads_(leads) {
    if constexpr (P::kClaims) {
      if (claims()) {
        const u64 rest = a.bytes - a.wholeRounds * whole();
        end_ = a.wholeRounds + (rest + small() - 1) / small();
        p.tell(channel);
        return;
      }
    }
    const Share share(a.bytes, a.nChannels, channel);
    next_ = share.begin;
    end_ = share.begin + share.bytes;
  }

  __device__ __forceinline__ bool claims() const { return P::kClaims && a_.claims != 0; }

  __device__ __forceinline__ bool next() {
    most = (u64)a_.sliceBytes * P::kSlices;
    if constexpr (P::kClaims) {
      if (claims()) return nextClaimed();
    }
    base = next_;
    rest = end_ - base;
    next_ += min(rest, whole());
    return base < end_;
  }

 private:
  __device__ __forceinline__ u64 whole() const { return (u64)a_.sliceBytes * P::kSlices * chunks_; }

  __device__ __forceinline__ u64 small() const {
    return (u64)a_.sliceBytes * a_.smallSlices * chunks_;
  }

  __device__ __forceinline__ bool nextClaimed() {
    // None comes after the last, of which some ranks may have no chunk that could bring a number.
    const u64 number = next_ == end_ ? end_ : p_.told();
    if (number >= end_) return false;
    next_ = number + 1;
    base = min(number, (u64)a_.wholeRounds) * whole();
    if (number >= a_.wholeRounds) {
      base += (number - a_.wholeRounds) * small();
      most = a_.sliceBytes * a_.smallSlices;
    }
    rest = a_.bytes - base;
    if (leads_) p_.tell(claim());
    return true;
  }

  // Each round claims one, so it is known which claim is the last.
  __device__ __forceinline__ u32 claim() {
    u32 before = 0;
    if ((threadIdx.x & 31) == 0) {
      before = atomicAdd((u32*)a_.claims, 1);
      if (before + 1 == end_) storeControl((void*)a_.claims, 0);
    }
    return __shfl_sync(~0u, before, 0) + a_.nChannels;
  }

  P& p_;
  const nccl4jCollectiveArguments& a_;
  const int chunks_;
  const bool leads_;
  u64 next_ = 0, end_ = 0;  // bytes of the share, or numbers of rounds
};

// Fan: 0 the rank before, 1 the rank after.
template <class P>
__device__ __forceinline__ void ring(P& p, const nccl4jCollectiveArguments& a, int channel) {
  const int n = a.comm.nRanks, rank = a.comm.rank, ix = a.ringIndex[channel];
  // Looked up each time: the kernel that has all algorithms has no registers to keep them in.
  auto order = [&](int place) { return ((const uint8_t*)a.ringRanks)[channel * n + place]; };
  const u32 collective = a.collective;
  const bool chain = collective == BROADCAST || collective == REDUCE;
  auto first = [&] { return collective == BROADCAST ? (u32)rank == a.root : a.ringPrev[channel] == a.root; };
  auto final = [&] { return collective == BROADCAST ? a.ringNext[channel] == a.root : (u32)rank == a.root; };
  const int legs = collective == ALL_REDUCE ? 2 * n - 1 : chain ? 1 : n;
  const int learning = chain ? 0 : ix;  // the leg in which the first rank's word comes
  u32 sent = 0, received = 0;
  Rounds<P> round(p, a, channel, collective == ALL_REDUCE ? n : 1, chain ? first() : ix == 0);
  while (round.next()) {
    const u64 base = round.base, rest = round.rest;
    const u64 chunk = min(round.most, collective == ALL_REDUCE ? evenPart(rest, n) : rest);
    for (int leg = 0; leg < legs; leg++) {
      // Chunks go round against the direction of the ring as the legs go on.
      int c = (ix + 2 * n - 1 - leg) % n;
      u64 from = base, to = from, length = chunk;
      bool recv = leg > 0, send = leg < legs - 1, own = true, keep = false, last = false;
      if (collective == ALL_REDUCE) {
        u64 skip = c * chunk;
        from = to = from + skip;
        length = skip >= rest ? 0 : min(chunk, rest - skip);
        own = leg < n;
        keep = leg >= n - 1;
        last = leg == n - 1;
      } else if (collective == REDUCE_SCATTER) {
        from += order(c) * a.bytes;
        keep = last = leg == n - 1;
      } else if (collective == ALL_GATHER) {
        to += order((ix + n - leg) % n) * a.bytes;
        own = leg == 0;
        keep = true;
      } else {
        recv = !first();
        send = !final();
        own = collective == REDUCE || first();
        keep = collective == BROADCAST || final();
        last = collective == REDUCE && final();
      }
      Step step;
      step.scale = SCALE_OWN;
      step.last = last;
      step.recvMask = recv ? 1 : 0;
      step.sendMask = send ? 2 : 0;
      step.learn = recv && leg == learning && round.claims();
      for (u64 at = 0; at < length; at += a.sliceBytes) {
        step.src = own ? (const char*)a.send + from + at : nullptr;
        step.dst = keep ? (char*)a.recv + to + at : nullptr;
        if (!recv && send && step.dst == step.src) step.dst = nullptr;
        step.bytes = (u32)min(length - at, (u64)a.sliceBytes);
        step.recvCount = received;
        step.sendCount = sent;
        p.run(step);
        step.learn = false;
        received += recv;
        sent += send;
      }
    }
  }
}

// All-reduce over a binary tree. Fan: 0 the parent, 1 and 2 the children. Slices go up, and a few
// slices later down, so that the two directions overlap.
template <class P>
__device__ __forceinline__ void tree(P& p, const nccl4jCollectiveArguments& a, int channel) {
  constexpr u64 kLag = 6;  // fewer than slots
  const bool root = a.treeUp[channel] == NCCL4J_NONE;
  const u32 children = (a.treeDown0[channel] != NCCL4J_NONE ? 2 : 0) |
                       (a.treeDown1[channel] != NCCL4J_NONE ? 4 : 0);
  const Share share(a.bytes, a.nChannels, channel);
  const u64 slices = (share.bytes + a.sliceBytes - 1) / a.sliceBytes;
  for (u64 i = 0; i < slices + kLag; i++) {
    for (int down = 0; down < (root ? 1 : 2); down++) {
      if (down ? i < kLag : i >= slices) continue;
      u64 slice = down ? i - kLag : i;
      u64 at = share.begin + slice * a.sliceBytes;
      Step step;
      step.bytes = (u32)min((u64)a.sliceBytes, share.begin + share.bytes - at);
      step.src = down ? nullptr : (const char*)a.send + at;
      step.dst = down || root ? (char*)a.recv + at : nullptr;
      step.recvMask = down ? 1 : children;
      step.sendMask = down || root ? children : 1;
      step.recvCount = step.sendCount = (u32)slice;
      step.creditClass = down || root;
      step.scale = SCALE_OWN;
      step.last = root;
      p.run(step);
    }
  }
}

// Straight to whoever needs it. Fan: all other ranks in their order. Data are combined in the order
// of ranks, so that all ranks that combine the same get the same.
template <class P>
__device__ __forceinline__ void oneShot(P& p, const nccl4jCollectiveArguments& a, int channel) {
  constexpr u64 kLag = 2;  // slices between sending and receiving
  const u32 collective = a.collective, root = a.root, rank = a.comm.rank;
  const u32 all = (u32)((1ull << (a.comm.nRanks - 1)) - 1);
  const u32 rootBit = rank == root ? 0 : 1u << (root - (root > rank));
  const bool rooted = collective == BROADCAST || collective == REDUCE;
  const bool sends = !rooted || (collective == BROADCAST) == (rank == root);
  const bool receives = !rooted || !sends;
  const bool scalesSent = kCombines && a.op == PREMUL;  // a mean scales what comes
  const Share share(a.bytes, a.nChannels, channel);
  const u64 slices = (share.bytes + a.sliceBytes - 1) / a.sliceBytes;
  if (!rooted && slices <= kMutualSlices) p.mutual();
  for (u64 i = 0; i < slices + kLag; i++) {
    for (int receiving = 0; receiving < 2; receiving++) {
      if (receiving ? i < kLag || !receives : i >= slices || !sends) continue;
      u64 slice = receiving ? i - kLag : i;
      u64 at = share.begin + slice * a.sliceBytes;
      const char* send = (const char*)a.send + at;
      char* recv = (char*)a.recv + at;
      Step step;
      step.bytes = (u32)min((u64)a.sliceBytes, share.begin + share.bytes - at);
      step.stride = a.bytes;
      step.recvCount = step.sendCount = (u32)slice;
      step.scale = scalesSent ? SCALE_OWN : SCALE_NONE;
      if (receiving) {
        step.recvMask = collective == BROADCAST ? rootBit : all;
        step.kind = collective == ALL_GATHER ? STEP_GATHER : STEP_REDUCE;
        step.dst = recv;
        if (collective == REDUCE_SCATTER) send += rank * a.bytes;
        if (collective != ALL_GATHER && collective != BROADCAST) step.src = send;
        if (!scalesSent) step.scale = SCALE_ALL;
        step.last = true;
      } else {
        step.sendMask = collective == REDUCE ? rootBit : all;
        step.kind = collective == REDUCE_SCATTER ? STEP_SCATTER : STEP_REDUCE;
        step.src = send;
        if (collective == ALL_GATHER) recv += rank * a.bytes;
        if ((collective == ALL_GATHER || collective == BROADCAST) && recv != send) step.dst = recv;
      }
      // A part for each peer, all of them scaled: by itself where only what is combined is scaled.
      const bool apart = !P::kScalesScatters && scalesSent && step.kind == STEP_SCATTER;
      for (u32 peer = 0; peer < (apart ? a.comm.nRanks - 1 : 1); peer++) {
        if (apart) {
          step.kind = STEP_REDUCE;
          step.sendMask = 1u << peer;
          step.src = send + (peer + (peer >= rank)) * a.bytes;
        }
        p.run(step);
      }
    }
  }
}

// All-reduce in two flights: every part to its owner, and the owner's sum to all. The parts of one
// round go out while those of the round before are summed and those of the one before are stored.
template <class P>
__device__ __forceinline__ void twoShot(P& p, const nccl4jCollectiveArguments& a, int channel) {
  const int n = a.comm.nRanks, rank = a.comm.rank;
  const u32 all = (u32)((1ull << (n - 1)) - 1);
  const Share share(a.bytes, a.nChannels, channel);
  const u64 most = a.sliceBytes;
  const u64 full = share.bytes / (most * n);  // rounds of full parts
  const u64 rounds = full + (share.bytes % (most * n) != 0);
  u32 sent = 0, received = 0;
  if (rounds <= 1)
    p.mutual();
  else
    p.remind();  // seven parts are on their way before the first four have been received
  for (u64 i = 0; i < rounds + 2; i++) {
    for (u64 phase = 0; phase < 3; phase++) {
      if (i < phase || i - phase >= rounds) continue;
      u64 round = i - phase;
      u64 base = round * most * n;
      u64 rest = min(share.bytes - base, most * n);
      u64 part = round < full ? most : evenPart(rest, n);
      Step step;
      step.bytes = (u32)part;
      step.stride = part;
      step.limit = rest;
      step.recvMask = phase > 0 ? all : 0;
      step.sendMask = phase < 2 ? all : 0;
      step.recvCount = received;
      step.sendCount = sent;
      step.kind = phase == 0 ? STEP_SCATTER : phase == 1 ? STEP_REDUCE : STEP_GATHER;
      step.scale = SCALE_ALL;
      step.last = true;
      const char* src = (const char*)a.send + share.begin + base;
      char* dst = (char*)a.recv + share.begin + base;
      if (phase == 1) {
        step.bytes = step.part(rank);
        src += rank * part;
        dst += rank * part;
      }
      step.src = phase == 2 ? nullptr : src;
      step.dst = phase == 0 ? nullptr : dst;
      p.run(step);
      sent += phase < 2;
      received += phase > 0;
    }
  }
}

// Where the algorithm is known when compiled.
template <int ALGORITHM, class P>
__device__ __forceinline__ void schedule(P& p, const nccl4jCollectiveArguments& a, int channel) {
  if constexpr (ALGORITHM == RING) ring(p, a, channel);
  if constexpr (ALGORITHM == TREE) tree(p, a, channel);
  if constexpr (ALGORITHM == ONE_SHOT) oneShot(p, a, channel);
  if constexpr (ALGORITHM == TWO_SHOT) twoShot(p, a, channel);
}

// Where it is not, because the schedule is little of the kernel.
template <class P>
__device__ __forceinline__ void anySchedule(P& p, const nccl4jCollectiveArguments& a, int channel) {
  switch (a.algorithm) {
    case RING:
      ring(p, a, channel);
      break;
    case TREE:
      tree(p, a, channel);
      break;
    case ONE_SHOT:
      oneShot(p, a, channel);
      break;
    default:
      twoShot(p, a, channel);
  }
}

}  // namespace nccl4j
