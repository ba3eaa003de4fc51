// Sends and receives that progress together. Each block does the works of one peer and direction on
// its channel, one after the other. No block waits for another block of this device.
//
// If a GPU has no room for all blocks at once, their order is: the distance between the ranks, then
// the channel, then sends before receives. GPUs start blocks in this order. So the first work that
// is not done is under way at both ends, however few blocks a GPU has room for.
#pragma once
#include "collective.cuh"
#include "exposed.cuh"
#include "p2p_small.cuh"
#include "straight.cuh"

namespace nccl4j {

// Counters with which channels claim pieces of a group's work; null if channels have fixed shares.
__device__ __forceinline__ nccl4jSteps* claims(const nccl4jGroup& group, const nccl4jWork& work,
                                               u32 number) {
  const bool claimed = work.bytes >= straight::kLeastClaimed && number < NCCL4J_CHANNELS;
  return claimed ? (nccl4jSteps*)group.steps + number : nullptr;
}

// Moves a channel's part of a work in Simple, in slices. Calls run at one place, where it is inlined.
__device__ __forceinline__ void transfer(SimplePrimitives& p, bool send, char* data, u64 bytes, u32 slice) {
  u32 count = 0;
  for (u64 at = 0; at < bytes; at += slice, count++) {
    Step step;
    step.bytes = (u32)min(bytes - at, (u64)slice);
    step.src = send ? data + at : nullptr;
    step.dst = send ? nullptr : data + at;
    step.sendMask = send;
    step.recvMask = !send;
    step.sendCount = step.recvCount = count;
    p.run(step);
  }
}

__device__ __forceinline__ void transferLines(Fan& fan, const nccl4jCommunicator& comm, int channel,
                                              bool send, char* data, u64 bytes, u32 signature) {
  if (send)
    lines::send(fan, comm, channel, data, bytes, signature);
  else
    lines::recv(fan, comm, channel, data, bytes, signature);
}

// Not inlined, for a caller that needs its registers for other work.
__device__ __noinline__ void transferLinesApart(Fan& fan, const nccl4jCommunicator& comm, int channel,
                                                bool send, char* data, u64 bytes, u32 signature) {
  transferLines(fan, comm, channel, send, data, bytes, signature);
}

// The works of a launch. A kernel without Simple works and without offers needs fewer registers. One for LL alone is in
// p2p_small.cuh.
enum class P2pWorks { ANY, FLAGGED };

template <P2pWorks WORKS>
__device__ __forceinline__ void runP2p(const nccl4jP2pArguments& a) {
  using T = uint8_t;
  const Factor<T> none = 1;  // nothing is scaled
  __shared__ Fan fan;
  const nccl4jGroup* groups = a.groups ? (const nccl4jGroup*)a.groups : a.inlineGroups;
  const nccl4jWork* works = a.works ? (const nccl4jWork*)a.works : a.inlineWorks;
  const auto [number, channel] = blockOfGroup(a, groups);
  const nccl4jGroup& group = groups[number];
  if (channel >= group.nBlocks) return;
  const bool send = group.kind == GROUP_SEND, copy = group.kind == GROUP_COPY;
  const int warp = threadIdx.x / 32, lane = threadIdx.x & 31;
  // Loads these arguments at once, since the first use of each is slow.
  if (WORKS == P2pWorks::FLAGGED)
    asm volatile("" ::"l"(group.data), "l"(group.credit), "l"(group.steps),
                 "l"(works[group.firstWork].address), "l"(works[group.firstWork].bytes),
                 "l"(a.comm.control), "r"(a.comm.simpleSlot));
  awaitPredecessor();
  admitSuccessor(a.comm);
  if (threadIdx.x == 0 && !copy) {
    nccl4jPeer ends = {group.data, send ? group.credit : 0, group.data, group.credit, group.steps};
    fan.n = 1;
    fan.self = 0;
    fan.signature = 0;
    fan.implied[0] = fan.set(0, group.peer, ends, a.comm, channel, send, !send);
  }
  for (u32 w = group.firstWork; w < group.firstWork + group.nWorks; w++) {
    const nccl4jWork& work = works[w];
    const Share share(work.bytes, work.parts, channel);
    char* whole = p2pAddress(a, work.address, work.base);
    char* data = whole + share.begin;
    if (channel >= work.parts) continue;
    if (copy) {
      copyBlock(p2pAddress(a, work.target, work.targetBase) + share.begin, data, share.bytes);
      continue;
    }
    if (WORKS != P2pWorks::FLAGGED && exposed::isExposed(a, w)) {
      __shared__ exposed::Come come;
      exposed::transfer(fan, come, a.comm, channel, send, data, share.bytes, work.signature);
      continue;
    }
    if (WORKS != P2pWorks::FLAGGED && work.offered &&
        (send ? straight::send(fan, a.comm, channel, work, claims(group, work, w - group.firstWork), whole)
              : straight::recv(fan, a.comm, channel, work)))
      continue;
    if (WORKS != P2pWorks::FLAGGED && work.protocol == SIMPLE) {
      __shared__ SimpleShared shared;
      shared.open();
      __syncthreads();
      u32 slice = a.comm.simpleSlot / NCCL4J_CHANNELS;
      if (warp < kWorkerWarps) {
        simple::work<T, /* MESSAGES= */ true>(shared, SUM, 1, none, threadIdx.x);
      } else if (warp == kWorkerWarps) {
        SimplePrimitives p(shared, fan, a.comm, channel, false, false);
        transfer(p, send, data, share.bytes, slice);
        p.finish();
      } else {
        simple::post(shared, fan, a.comm, channel, work.signature, lane);
      }
    } else if (work.protocol == LL128) {
      __syncthreads();
      if (WORKS == P2pWorks::FLAGGED)
        transferLines(fan, a.comm, channel, send, data, share.bytes, work.signature);
      else
        transferLinesApart(fan, a.comm, channel, send, data, share.bytes, work.signature);
    } else {
      __syncthreads();
      if (send)
        small::transfer<true>(fan, a.comm, group, channel, data, share.bytes, work.signature);
      else
        small::transfer<false>(fan, a.comm, group, channel, data, share.bytes, work.signature);
    }
    __syncthreads();
  }
}

}  // namespace nccl4j
