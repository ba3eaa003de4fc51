// The kernels of collectives, one for each protocol, over the type of the elements.
#pragma once
#include "algorithms.h"
#include "launch.cuh"
#include "ll.cuh"
#include "ll128.cuh"
#include "simple.cuh"

namespace nccl4j {

constexpr int kLLThreads = NCCL4J_FLAGGED_THREADS;

// The algorithm is known at compile time.
template <int ALGORITHM, class P>
__device__ __forceinline__ void schedule(P& p, const nccl4jCollectiveArguments& a, int channel) {
#define NCCL4J_RUN(NUMBER, KERNEL, FUNCTION, PEERS, FAMILIES) \
  if constexpr (ALGORITHM == NUMBER) FUNCTION(p, a, channel);
  NCCL4J_ALGORITHMS(NCCL4J_RUN)
#undef NCCL4J_RUN
}

// The algorithm is chosen at run time, because the schedule is a small part of the kernel.
template <class P>
__device__ __forceinline__ void anySchedule(P& p, const nccl4jCollectiveArguments& a, int channel) {
  switch (a.algorithm) {
#define NCCL4J_RUN(NUMBER, KERNEL, FUNCTION, PEERS, FAMILIES) \
  case NUMBER:                                                \
    FUNCTION(p, a, channel);                                  \
    break;
    NCCL4J_ALGORITHMS(NCCL4J_RUN)
#undef NCCL4J_RUN
    default:
      __builtin_unreachable();
  }
}

// True if the algorithm's fan is of a form.
__device__ __forceinline__ bool hasFan(u32 algorithm, nccl4jPeers peers) {
#define NCCL4J_HAS(NUMBER, KERNEL, FUNCTION, PEERS, FAMILIES) || (peers == PEERS && algorithm == NUMBER)
  return false NCCL4J_ALGORITHMS(NCCL4J_HAS);
#undef NCCL4J_HAS
}

// Fills the fan for the algorithm. Called by all threads, before a barrier. Returns to each of the
// first threads the rank of its entry, or -1, and the head of the connection to it. DISTANCES: the kernel has
// algorithms whose fan is at distances, or on host and rail.
template <bool DISTANCES>
__device__ __forceinline__ int setFan(Fan& fan, const nccl4jCollectiveArguments& a, int channel,
                                      u64& head, u64 signature) {
  const int n = a.comm.nRanks, rank = a.comm.rank, i = threadIdx.x;
  const bool ring = hasFan(a.algorithm, NEIGHBOURS), tree = hasFan(a.algorithm, PARENT_AND_CHILDREN);
  const bool pat = DISTANCES && hasFan(a.algorithm, AT_DISTANCES);
  const bool grid = DISTANCES && hasFan(a.algorithm, ON_HOST_AND_RAIL);
  const int levels = PatTrees::bits(n - 1);
  const int entries = ring ? 2 : grid ? 4 : tree ? 1 + NCCL4J_TREE_CHILDREN : pat ? 2 * levels : n - 1;
  // Where two entries may be of one peer, each is of one direction.
  const bool sends = pat ? i >= levels : !grid || i & 1, receives = pat ? i < levels : !grid || !(i & 1);
  int peer = -1;
  if (i < entries) {
    peer = ring || (grid && i < 2) ? (i == 0 ? a.ringPrev[channel] : a.ringNext[channel])
           : grid ? (i == 2 ? a.treeUp[channel] : a.treeDown[0][channel])
           : tree ? (i == 0 ? a.treeUp[channel] : a.treeDown[i - 1][channel])
           : pat  ? patPeer(a.comm, i, levels, a.collective == ALL_GATHER)
                  : i + (i >= rank);
    if (peer == NCCL4J_NONE) peer = -1;
    if (peer < 0) fan.rank[i] = peer;
  }
  nccl4jPeer ends = {};
  if (peer >= 0) ends = a.peerTable ? ((const nccl4jPeer*)a.peerTable)[peer] : a.peers[peer];
  // The first use of arguments is slow, so load them before the wait.
  asm volatile("" ::"l"(ends.sendData), "l"(ends.sendCredit), "l"(ends.recvData), "l"(ends.recvCredit),
               "l"(ends.steps), "l"(a.send), "l"(a.recv), "l"(a.bytes));
  awaitPredecessor();
  admitSuccessor(a.comm);
  if (peer >= 0) head = fan.set(i, peer, ends, a.comm, a.firstChannel + channel, sends, receives, signature);
  if (i == 0) {
    fan.n = entries;
    fan.self = ring || tree || pat || grid ? 0 : rank;
    fan.signature = signature;
  }
  return peer;
}

// Beside the thread that waits for what the fan needs. Called by all threads, before a barrier.
template <class T>
__device__ __forceinline__ void setFactor(Factor<T>& factor, const nccl4jCollectiveArguments& a) {
  if (kCombines && threadIdx.x == 32 && touchByFactor<T>(a.op).scale) factor = factorOf<T>(a);
}

template <int ALGORITHM, class P>
__device__ __forceinline__ void runFlagged(const nccl4jCollectiveArguments& a) {
  __shared__ Fan fan;
  __shared__ CreditShared credit;
  __shared__ Factor<typename P::Element> factor;
  const int channel = blockIdx.x;
  u64 head = 0;
  int peer = setFan<false>(fan, a, channel, head, P::kSignsSteps ? (u64)a.comm.signature << 48 : 0);
  setFactor<typename P::Element>(factor, a);
  Credit::open(credit, head, peer >= 0 ? fan.sent[threadIdx.x] : 0, peer >= 0,
               peer >= 0 && fan.carried[threadIdx.x] != 0);
  __syncthreads();
  P p(credit, fan, a.comm, a.firstChannel + channel, a.op, factor, a.comm.signature);
  schedule<ALGORITHM>(p, a, channel);
  p.finish();
}

template <class T>
__device__ __forceinline__ void runSimple(const nccl4jCollectiveArguments& a) {
  __shared__ Fan fan;
  __shared__ SimpleShared shared;
  __shared__ Factor<T> factor;
  const int channel = blockIdx.x, warp = threadIdx.x / 32, lane = threadIdx.x & 31;
  u64 head = 0;
  setFan<true>(fan, a, channel, head, 0);
  setFactor<T>(factor, a);
  shared.open();
  __syncthreads();
  if (warp < kWorkerWarps) {
    simple::work<T>(shared, a.op, a.comm.nRanks, factor, threadIdx.x);
  } else if (warp == kWorkerWarps) {
    Touch touch = touchByFactor<T>(a.op);
    SimplePrimitives p(shared, fan, a.comm, a.firstChannel + channel, touch.scale, touch.divide);
    anySchedule(p, a, channel);
    p.finish();
  } else {
    simple::post(shared, fan, a.comm, a.firstChannel + channel, a.comm.signature, lane);
  }
}

}  // namespace nccl4j
