// The ring algorithm, as steps for the primitives of any protocol. It has one call of run, where the
// compiler inlines the protocol.
//
// Row 1 of algorithms.h: RING, ring, ring, NEIGHBOURS, ALL
#pragma once
#include "share.cuh"
#include "step.cuh"

namespace nccl4j {

// The rounds in which a channel of a ring processes the data. Either each channel has a share of its own,
// or each claims the next round of all data. Claims help because channels differ in pace, and the rest of
// the slow channels does not fill the links. With claims, the first rank of the ring assigns rounds, one
// ahead, and the number travels with the data. All rings are the same then, so the channel of a round does
// not affect its sums.
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
    // The last round has no successor. Some ranks may have no chunk of it to carry a number.
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

// One leg of a round: the part of the data that this rank handles, and what it does with that part.
struct RingLeg {
  u64 from, to, length;  // offsets in the send and the receive buffer, and bytes
  bool receives, sends;
  bool own;    // takes this rank's own data
  bool keeps;  // stores the result
  bool last;   // the result is final
};

// The legs of the collectives that go round a ring, on one channel.
class RingLegs {
 public:
  int count;     // legs of a round
  int learning;  // the leg in which the number of the next round comes

  __device__ __forceinline__ RingLegs(const nccl4jCollectiveArguments& a, int channel)
      : a_(a), channel_(channel), index_(a.ringIndex[channel]) {
    const int n = a.comm.nRanks;
    count = a.collective == ALL_REDUCE ? 2 * n - 1 : isChain() ? 1 : n;
    learning = isChain() ? 0 : index_;
  }

  // Broadcast and reduce: data go along the ring once.
  __device__ __forceinline__ bool isChain() const {
    return a_.collective == BROADCAST || a_.collective == REDUCE;
  }

  // True if this rank assigns the rounds.
  __device__ __forceinline__ bool leads() const { return isChain() ? isFirst() : index_ == 0; }

  // Chunks go round against the direction of the ring as the legs go on.
  __device__ __forceinline__ RingLeg leg(int number, u64 base, u64 rest, u64 chunk) const {
    const int n = a_.comm.nRanks, c = (index_ + 2 * n - 1 - number) % n;
    RingLeg leg = {base, base, chunk, number > 0, number < count - 1, true, false, false};
    if (a_.collective == ALL_REDUCE) {
      const u64 skip = c * chunk;
      leg.from = leg.to = base + skip;
      leg.length = skip >= rest ? 0 : min(chunk, rest - skip);
      leg.own = number < n;
      leg.keeps = number >= n - 1;
      leg.last = number == n - 1;
    } else if (a_.collective == REDUCE_SCATTER) {
      leg.from += rankAt(c) * a_.bytes;
      leg.keeps = leg.last = number == n - 1;
    } else if (a_.collective == ALL_GATHER) {
      leg.to += rankAt((index_ + n - number) % n) * a_.bytes;
      leg.own = number == 0;
      leg.keeps = true;
    } else {
      leg.receives = !isFirst();
      leg.sends = !isFinal();
      leg.own = a_.collective == REDUCE || isFirst();
      leg.keeps = a_.collective == BROADCAST || isFinal();
      leg.last = a_.collective == REDUCE && isFinal();
    }
    return leg;
  }

 private:
  // Looked up each time: the kernel with all algorithms has no registers left for it.
  __device__ __forceinline__ u32 rankAt(int place) const {
    const u32 at = channel_ * a_.comm.nRanks + place;
    return *(const uint16_t*)(a_.ringRanks + at * (u32)sizeof(uint16_t));
  }

  __device__ __forceinline__ bool isFirst() const {
    return a_.collective == BROADCAST ? (u32)a_.comm.rank == a_.root : a_.ringPrev[channel_] == a_.root;
  }

  __device__ __forceinline__ bool isFinal() const {
    return a_.collective == BROADCAST ? a_.ringNext[channel_] == a_.root : (u32)a_.comm.rank == a_.root;
  }

  const nccl4jCollectiveArguments& a_;
  const int channel_, index_;
};

// Fan: 0 the rank before, 1 the rank after.
template <class P>
__device__ __forceinline__ void ring(P& p, const nccl4jCollectiveArguments& a, int channel) {
  const int n = a.comm.nRanks;
  const bool allReduce = a.collective == ALL_REDUCE;
  const RingLegs legs(a, channel);
  u32 sent = 0, received = 0;
  Rounds<P> round(p, a, channel, allReduce ? n : 1, legs.leads());
  while (round.next()) {
    const u64 base = round.base, rest = round.rest;
    const u64 chunk = min(round.most, allReduce ? evenPart(rest, n) : rest);
    for (int number = 0; number < legs.count; number++) {
      const RingLeg leg = legs.leg(number, base, rest, chunk);
      Step step;
      step.scale = SCALE_OWN;
      step.last = leg.last;
      step.recvMask = leg.receives ? 1 : 0;
      step.sendMask = leg.sends ? 2 : 0;
      step.learn = leg.receives && number == legs.learning && round.claims();
      for (u64 at = 0; at < leg.length; at += a.sliceBytes) {
        step.src = leg.own ? (const char*)a.send + leg.from + at : nullptr;
        step.dst = leg.keeps ? (char*)a.recv + leg.to + at : nullptr;
        if (!leg.receives && leg.sends && step.dst == step.src) step.dst = nullptr;
        step.bytes = (u32)min(leg.length - at, (u64)a.sliceBytes);
        step.recvCount = received;
        step.sendCount = sent;
        p.run(step);
        step.learn = false;
        received += leg.receives;
        sent += leg.sends;
      }
    }
  }
}

}  // namespace nccl4j
