// Communicators that share connections are totally ordered: all ranks call them in the same order. With
// different orders, one communicator would receive the other's data. So when the communicator changes on
// a channel, the sender reports the first step of the change, and the receiver compares its earlier steps
// with that report. A rank that is far behind can no longer detect a mismatch, and reports none.
#pragma once
#include "layout.h"
#include "memory.cuh"
#include "wait.cuh"

namespace nccl4j {
namespace users {

constexpr u32 kUnlike = 2;  // failedKind

__device__ __forceinline__ bool change(u64 steps, u32 user, bool sends, bool receives) {
  return (sends && (steps >> 16 & 0xffff) != user) || (receives && (steps >> 32 & 0xffff) != user);
}

__device__ __forceinline__ void sends(volatile nccl4jSteps* steps, char* tail, u32 user) {
  const u64 told = steps->told, step = steps->sent & ~0u;
  // If nothing was sent since the last change, the last data belong to the communicator before.
  const u64 before = told >> 32 == step ? told & 0xffff : told >> 16 & 0xffff;
  const u64 now = step << 32 | user << 16 | before;
  steps->told = now;
  steps->sender = user;
  if (steps->carried & 1) return;
  storeWordRelaxed(tail + NCCL4J_USER, now);
  fenceSystem();  // before all later data
}

// True if the data that were received were sent for this communicator.
__device__ __forceinline__ bool receives(volatile nccl4jSteps* steps, const char* tail, u32 user) {
  const u32 received = (u32)steps->received, seen = (u32)steps->seen, last = steps->receiver;
  steps->seen = received;
  steps->receiver = user;
  if (steps->carried & 2 || received == seen) return true;
  const u64 told = loadWordRelaxed(tail + NCCL4J_USER);
  const u32 begin = (u32)(told >> 32), sender = told >> 16 & 0xffff, before = told & 0xffff;
  if ((int)(begin - received) > 0) return true;  // the change lies after these steps
  if (begin == received) return before == last;
  return sender == last && ((int)(begin - seen) <= 0 || before == last);
}

// For a channel of the connections with a peer. Takes values only, so that the caller's variables stay in
// registers.
__device__ __noinline__ void changeTo(u32 user, volatile nccl4jSteps* steps, char* sendTail, char* recvTail,
                                      nccl4jControl* control, int peer, int channel) {
  if (sendTail != nullptr && steps->sender != user) sends(steps, sendTail, user);
  if (recvTail != nullptr && steps->receiver != user && !receives(steps, recvTail, user))
    fail(control, peer, channel, kUnlike, steps->received);
}

}  // namespace users
}  // namespace nccl4j
