// Collectives of hosts with as many ranks each, as on the host device (class HierarchicalKernels): along the ring of
// the ranks of a host, and along the rail of the ranks with one number on each of the hosts.
//
// Row 5 of algorithms.h: HIERARCHICAL, hierarchical, hierarchical, ON_HOST_AND_RAIL, NONE
#pragma once
#include "share.cuh"
#include "step.cuh"

namespace nccl4j {

// The grid of hosts and their ranks, as a rank sees it. All is looked up each time: the kernel with all algorithms has no
// registers left for it.
class HostGrid {
 public:
  __device__ __forceinline__ HostGrid(const nccl4jCollectiveArguments& a, int channel) : a_(a), channel_(channel) {}

  // Ranks of each host, and hosts.
  __device__ __forceinline__ u32 locals() const { return a_.hostRanks; }
  __device__ __forceinline__ u32 hosts() const { return a_.comm.nRanks / locals(); }

  // The rank so many places before this one along the rail, and within the host.
  __device__ __forceinline__ u32 before(u32 alongRail, u32 within) const {
    const u32 place = a_.ringIndex[channel_];
    const u32 host = (place / locals() + hosts() - alongRail) % hosts();
    const u32 index = (place % locals() + locals() - within) % locals();
    return *(const uint16_t*)(a_.ringRanks + (host * locals() + index) * (u32)sizeof(uint16_t));
  }

 private:
  const nccl4jCollectiveArguments& a_;
  const int channel_;
};

// Entries of the fan.
enum GridPeer : u32 { BEFORE_ON_HOST = 1, NEXT_ON_HOST = 2, HOST_BEFORE = 4, NEXT_HOST = 8 };

// What a rank does with one block. There is a block for each rank.
struct GridLeg {
  u32 block;  // the rank whose block it is
  u32 recvMask, sendMask;
  bool own;   // takes this rank's own data
  bool keeps;
  bool last;  // the result is final
};

// A sum of the ranks before this one: blocks of the other hosts' ranks first, the rank's own at the end. The last leg
// of a host takes the host's sum on to the rail, with what comes along the rail.
__device__ __forceinline__ GridLeg gridSum(const HostGrid& grid, u32 number, bool spreads) {
  const u32 host = number / grid.locals() + 1, place = number % grid.locals() + 1;
  const bool leaves = place == grid.locals(), done = leaves && host == grid.hosts();
  GridLeg leg = {};
  leg.block = grid.before(host, place);
  leg.recvMask = (place > 1 ? BEFORE_ON_HOST : 0) | (leaves && host > 1 ? HOST_BEFORE : 0);
  leg.sendMask = !leaves ? NEXT_ON_HOST : !done ? NEXT_HOST : spreads ? NEXT_ON_HOST | NEXT_HOST : 0;
  leg.own = true;
  leg.keeps = leg.last = done;
  return leg;
}

// What is given out: the rank's own block, then those of its host's other ranks, then the same of each host before.
__device__ __forceinline__ GridLeg gridGather(const HostGrid& grid, u32 number) {
  const u32 host = number / grid.locals(), place = number % grid.locals();
  GridLeg leg = {};
  leg.block = grid.before(host, place);
  leg.recvMask = place > 0 ? BEFORE_ON_HOST : host > 0 ? HOST_BEFORE : 0;
  leg.sendMask = (place + 1 < grid.locals() ? NEXT_ON_HOST : 0) | (place == 0 && host + 1 < grid.hosts() ? NEXT_HOST : 0);
  leg.own = number == 0;
  leg.keeps = true;
  return leg;
}

// A step receives and sends at once, and data that a rank sends in one leg its receiver takes in the next. So if all ranks
// are in one leg, a block's steps wait on each connection, and one more is sent before the first is taken: that is a slot
// more than a block has steps. With these no cycle of ranks waits for room, since a rank that does has done more steps of
// the leg than its receiver.
template <class P>
__device__ __forceinline__ void hierarchical(P& p, const nccl4jCollectiveArguments& a, int channel) {
  constexpr u64 kBlockSlices = 4;
  static_assert(kBlockSlices < NCCL4J_SLOTS - NCCL4J_UNTOLD_STEPS, "a slot more than a block has steps");
  const u32 n = a.comm.nRanks;
  const bool sums = kCombines && a.collective != ALL_GATHER, spreads = kCombines && a.collective == ALL_REDUCE;
  const HostGrid grid(a, channel);
  const Share share(a.bytes, a.nChannels, channel);
  const u32 legs = spreads ? 2 * n - 1 : n;
  for (u64 done = 0; done < share.bytes;) {
    const u64 rest = share.bytes - done, base = share.begin + done;
    const u64 most = min(a.sliceBytes * kBlockSlices, spreads ? evenPart(rest, n) : rest);
    for (u32 number = 0; number < legs; number++) {
      const GridLeg leg = sums && number < n ? gridSum(grid, number, spreads) : gridGather(grid, number + 1 - (sums ? n : 1));
      const u64 skip = spreads ? leg.block * most : 0;
      const u64 length = skip >= rest ? 0 : min(most, rest - skip);
      const u64 part = leg.block * a.bytes;
      const u64 from = base + (spreads ? skip : sums ? part : 0), to = base + (spreads ? skip : sums ? 0 : part);
      Step step;
      step.recvMask = leg.recvMask;
      step.sendMask = leg.sendMask;
      step.scale = SCALE_OWN;
      step.last = leg.last;
      for (u64 at = 0; at < length; at += a.sliceBytes) {
        step.src = leg.own ? (const char*)a.send + from + at : nullptr;
        step.dst = leg.keeps ? (char*)a.recv + to + at : nullptr;
        if (!sums && step.dst == step.src) step.dst = nullptr;
        step.bytes = (u32)min(length - at, (u64)a.sliceBytes);
        p.run(step);
      }
    }
    done += spreads ? min(rest, most * n) : most;
  }
}

}  // namespace nccl4j
