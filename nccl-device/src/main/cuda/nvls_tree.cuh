// NVLS between machines, an all-reduce. The heads with the same number on all machines form a tree
// over ordinary connections. They use Simple slots, which a proxy may carry.
//
// A block is a channel. It has four groups of warps, which work on different chunks at a time:
// - scatter and gather are those of NVLS.
// - up, on ranks that are heads, combines the slots of its machine with those of its children, and
//   sends the result to its parent. At the root it sends the result to the children and to all
//   ranks of the machine.
// - down sends what comes from the parent to the children and to all ranks of the machine.
// A group waits for another group of its block only through slots, and never for a later chunk, so
// the groups never wait in a circle.
#pragma once
#include "nvls.cuh"
#include "step.cuh"
#include "nvls_tree_layout.h"

namespace nccl4j {
namespace nvls {

constexpr int kParent = 0, kFirstChild = 1, kEnds = NCCL4J_NVLS_TREE_ENDS;
constexpr int kTreeUnroll = 4;
constexpr int kLookers = 32;  // a group's first warp waits for its machine, the second for the tree

// One or both directions of the connection with a parent or a child, for the thread of a group that
// waits for it and posts to it. No other group uses the same direction.
class TreeEnd {
 public:
  // end: index in the fan; threads with another number have no connection.
  __device__ TreeEnd(const Fan& fan, int channel, int end, bool sends, bool receives)
      : fan_(fan), channel_(channel), end_(end) {
    bool has = end >= 0 && end < kEnds && fan.rank[end] >= 0;
    sends_ = has && sends;
    receives_ = has && receives;
    if (sends_) head_ = fan.implied[end];
  }

  // Waits for step index of this kernel: received data, and a free slot to send from.
  __device__ __forceinline__ void awaitStep(u64 index, Patience& patience, u32& dead) {
    if (receives_) {
      u64 wanted = fan_.received[end_] + index + 1;
      const char* word = tailOf(fan_.recvData[end_], channel_);
      if (tail_ < wanted)
        await([&] { return tail_ = loadWordAcquire(word); }, wanted, patience, dead, fan_.rank[end_],
              channel_, 0);
    }
    if (sends_) {
      u64 step = fan_.sent[end_] + index;
      u64 wanted = step < NCCL4J_SLOTS ? 0 : step - NCCL4J_SLOTS + 1;
      const char* word = (const char*)fan_.sendCredit[end_];
      if (head_ < wanted)
        await([&] { return head_ = loadWordAcquire(word); }, wanted, patience, dead, fan_.rank[end_],
              channel_, 1);
    }
  }

  // Posts step index, after the group's barrier: its slots are filled or empty.
  __device__ __forceinline__ void post(u64 index, u32 bytes) {
    if (sends_) {
      u64 step = fan_.sent[end_] + index;
      if (fan_.carried[end_] & 1) storeControl(noteOf(fan_.sendData[end_], channel_, step), bytes);
      fenceSystem();
      storeWordRelaxed(tailOf(fan_.sendData[end_], channel_), step + 1);
    }
    if (receives_)
      storeWordRelaxed((void*)fan_.recvCredit[end_], fan_.received[end_] + index + 1);
  }

  // Stores the counts of steps for the next kernel.
  __device__ void keep(u64 steps) {
    if (!sends_ && !receives_) return;
    nccl4jSteps* kept = (nccl4jSteps*)fan_.steps[end_];
    if (sends_) kept->sent = fan_.sent[end_] + steps;
    if (receives_) kept->received = fan_.received[end_] + steps;
  }

 private:
  const Fan& fan_;
  int channel_, end_;
  bool sends_ = false, receives_ = false;
  u64 tail_ = 0, head_ = 0;  // values at the last look
};

// Addresses of a step's slots in the connections of a tree; null without a connection.
struct TreeSlots {
  const char* in[kEnds];
  char* out[kEnds];

  __device__ TreeSlots(const Fan& fan, SlotPlace place, u64 index) {
#pragma unroll
    for (int e = 0; e < kEnds; e++) {
      bool has = fan.rank[e] >= 0;
      in[e] = has ? place.at(fan.recvData[e], fan.received[e] + index) : nullptr;
      out[e] = has ? place.at(fan.sendData[e], fan.sent[e] + index) : nullptr;
    }
  }
};

template <int U>
__device__ __forceinline__ void loadPacks(const char* slot, u32 at, u32 left, u64 (&x)[2 * U]) {
#pragma unroll
  for (int i = 0; i < U; i++) {
    if (512u * i >= left) continue;
    Pack v = loadPack(slot + at + 512 * i);
    x[2 * i] = v.lo;
    x[2 * i + 1] = v.hi;
  }
}

template <int U>
__device__ __forceinline__ void storePacks(char* slot, u32 at, u32 left, const u64 (&x)[2 * U]) {
#pragma unroll
  for (int i = 0; i < U; i++)
    if (512u * i < left) storePack(slot + at + 512 * i, {x[2 * i], x[2 * i + 1]});
}

template <int U, class A>
__device__ __forceinline__ void storeToAll(const A& access, u64 offset, u32 left,
                                           const u64 (&x)[2 * U]) {
#pragma unroll
  for (int i = 0; i < U; i++)
    if (512u * i < left) access.store(offset + 512 * i, {x[2 * i], x[2 * i + 1]});
}

template <class T, class A>
__device__ void up(const nccl4jNvlsTreeArguments& args, const Places& places, const Group& g,
                   Shared& shared, const Fan& fan, int channel) {
  constexpr int U = kTreeUnroll;
  const nccl4jNvlsArguments& a = args.nvls;
  A access(a, args.nMembers, args.member);
  Patience patience = patienceFor(a.comm, g.thread == args.member);
  u32& dead = shared.dead[g.barrier];
  const int h = a.headRank, t = g.thread;
  if (h < 0) return;
  const bool root = fan.rank[kParent] < 0;
  const bool divide = root && touchFor<T>(a.op).divide;
  const bool looks = t < access.lookers();
  const u64 from = places.reduce(h), to = places.broadcast(h);
  const SlotPlace place = slotPlace(a.comm, SIMPLE, channel);
  const int end = t - kLookers;
  TreeEnd tree(fan, channel, end, root || end == kParent, end != kParent);
  u64 steps = 0;
  for (Loop loop(a, channel); loop.more() && loop.bytes(h) > 0; loop.next()) {
    const u64 index = loop.index();
    const u64 in = shared.reduceSteps[h] + index, out = shared.broadcastSteps[h] + index;
    const u32 bytes = loop.bytes(h);
    if (looks) {
      if (root && out >= NCCL4J_SLOTS)
        await([&] { return access.look(t, to + places.head()); }, out - NCCL4J_SLOTS + 1, patience,
              dead, args.memberRanks[t], channel, 1);
      await([&] { return access.look(t, from + places.tail()); }, in + 1, patience, dead,
            args.memberRanks[t], channel, 0);
      access.crossAliases();
    }
    tree.awaitStep(index, patience, dead);
    g.sync();
    if (isDead(dead)) return;
    const u64 slotIn = from + places.slot(in), slotOut = to + places.slot(out);
    const TreeSlots slots(fan, place, index);
    forPacks<U>(g, bytes, [&](u32 at, u32 left) {
      u64 x[2 * U], y[2 * U];
      access.template loadReduce<U>(a.op, slotIn + at, left, x);
      Accumulator<T, 2 * U> sum;
      sum.set(x, {});
#pragma unroll
      for (int c = kFirstChild; c < kEnds; c++) {
        if (slots.in[c] == nullptr) continue;
        loadPacks<U>(slots.in[c], at, left, y);
        sum.add(a.op, y, {});
      }
      sum.result(x);
      if (divide)
        for (int i = 0; i < 2 * U; i++) x[i] = divideElements<T>(x[i], a.comm.nRanks);
      if (!root) {
        storePacks<U>(slots.out[kParent], at, left, x);
        return;
      }
#pragma unroll
      for (int c = kFirstChild; c < kEnds; c++)
        if (slots.out[c] != nullptr) storePacks<U>(slots.out[c], at, left, x);
      storeToAll<U>(access, slotOut + at, left, x);
    });
    g.sync();
    if (looks) {
      access.crossAliases();
      fenceSystem();
      if (root) access.tell(t, to + places.tail(), out + 1);
      access.tell(t, from + places.head(), in + 1);
    }
    tree.post(index, bytes);
    steps = index + 1;
  }
  tree.keep(steps);
}

template <class T, class A>
__device__ void down(const nccl4jNvlsTreeArguments& args, const Places& places, const Group& g,
                     Shared& shared, const Fan& fan, int channel) {
  constexpr int U = kTreeUnroll;
  const nccl4jNvlsArguments& a = args.nvls;
  A access(a, args.nMembers, args.member);
  u32& dead = shared.dead[g.barrier];
  const int h = a.headRank, t = g.thread;
  if (h < 0 || fan.rank[kParent] < 0) return;
  const bool looks = t < access.lookers();
  const u64 to = places.broadcast(h);
  const SlotPlace place = slotPlace(a.comm, SIMPLE, channel);
  const int end = t - kLookers;
  // The parent may itself wait for this rank. Then up gives up first, and names the rank at fault.
  Patience patience = patienceFor(a.comm, t == args.member || end == kParent);
  TreeEnd tree(fan, channel, end, end != kParent, end == kParent);
  u64 steps = 0;
  for (Loop loop(a, channel); loop.more() && loop.bytes(h) > 0; loop.next()) {
    const u64 index = loop.index(), out = shared.broadcastSteps[h] + index;
    const u32 bytes = loop.bytes(h);
    if (looks) {
      if (out >= NCCL4J_SLOTS)
        await([&] { return access.look(t, to + places.head()); }, out - NCCL4J_SLOTS + 1, patience,
              dead, args.memberRanks[t], channel, 1);
      access.crossAliases();
    }
    tree.awaitStep(index, patience, dead);
    g.sync();
    if (isDead(dead)) return;
    const u64 slotOut = to + places.slot(out);
    const TreeSlots slots(fan, place, index);
    forPacks<U>(g, bytes, [&](u32 at, u32 left) {
      u64 x[2 * U];
      loadPacks<U>(slots.in[kParent], at, left, x);
#pragma unroll
      for (int c = kFirstChild; c < kEnds; c++)
        if (slots.out[c] != nullptr) storePacks<U>(slots.out[c], at, left, x);
      storeToAll<U>(access, slotOut + at, left, x);
    });
    g.sync();
    if (looks) {
      access.crossAliases();
      fenceSystem();
      access.tell(t, to + places.tail(), out + 1);
    }
    tree.post(index, bytes);
    steps = index + 1;
  }
  tree.keep(steps);
}

// Threads of the groups. With more threads, packs in flight would not fit in registers.
constexpr int kTreeThreads = NCCL4J_NVLS_TREE_THREADS;
constexpr int kTreeSide = 96;   // scatter and gather
constexpr int kTreeHalf = 160;  // up and down

template <class T, class A>
__device__ void runTree(const nccl4jNvlsTreeArguments& args) {
  __shared__ Shared shared;
  __shared__ Fan fan;
  const nccl4jNvlsArguments& a = args.nvls;
  const int channel = blockIdx.x, t = threadIdx.x;
  shared.begin(a, channel);
  if (t < kEnds) {
    // The tree of this head's number. Channels alternate between the trees; even heads begin with
    // the first tree, odd heads with the second.
    const nccl4jNvlsTree& tree = args.trees[(channel + max(a.headRank, 0)) % NCCL4J_NVLS_TREES];
    fan.rank[t] = -1;
    if (tree.ranks[t] >= 0) fan.set(t, tree.ranks[t], tree.ends[t], a.comm, channel);
  }
  __syncthreads();
  const Places places(a, channel);
  if (t < kTreeSide)
    scatter<T, A, OwnRank::LONGER>(a, places, {t, kTreeSide, 1}, shared, channel);
  else if (t < 2 * kTreeSide)
    gather<T, A, OwnRank::LONGER>(a, places, {t - kTreeSide, kTreeSide, 2}, shared, channel);
  else if (t < 2 * kTreeSide + kTreeHalf)
    up<T, A>(args, places, {t - 2 * kTreeSide, kTreeHalf, 3}, shared, fan, channel);
  else
    down<T, A>(args, places, {t - 2 * kTreeSide - kTreeHalf, kTreeHalf, 4}, shared, fan, channel);
}

static_assert(2 * (kTreeSide + kTreeHalf) == kTreeThreads, "all threads are in a group");

}  // namespace nvls
}  // namespace nccl4j
