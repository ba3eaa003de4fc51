// Carried messages whose data stay in the user's buffers: the proxy sends from the sender's buffer, and receives
// in the receiver's. Each end does so or uses slots, whatever the other does: a step has the same bytes either
// way. The kernel tells the proxy where the data are, in words beside the tail and the head.
//
// The sender ends once its proxy has sent all, since the buffer may be written then. The receiver tells of a
// step before it gives the proxy the slot, so that all but a message's first steps begin in the buffer. A step
// whose receive was not moved to the buffer, or whose buffer the network does not take, comes to its slot, and
// the block copies it from there.
#pragma once
#include "straight.cuh"

namespace nccl4j {
namespace exposed {

// True if a work's buffer is one that its network can use.
__device__ __forceinline__ bool isExposed(const nccl4jP2pArguments& a, u32 work) {
  return work < NCCL4J_EXPOSED_WORKS && (a.exposed[work / 64] >> (work % 64) & 1) != 0;
}

__device__ __forceinline__ u32 slotOf(u64 step) { return step & (NCCL4J_SLOTS - 1); }

// The steps of a channel's share of a message.
struct Steps {
  u64 first, end;
  char* data;
  u64 bytes;
  u32 slice;

  __device__ __forceinline__ Steps(const nccl4jCommunicator& comm, u64 first, char* data, u64 bytes)
      : first(first), data(data), bytes(bytes), slice(comm.simpleSlot / NCCL4J_CHANNELS) {
    end = first + (bytes + slice - 1) / slice;
  }

  __device__ __forceinline__ char* at(u64 step) const { return data + (step - first) * slice; }

  __device__ __forceinline__ u32 bytesOf(u64 step) const {
    return (u32)min((u64)slice, bytes - (step - first) * slice);
  }
};

// One thread. Returns early after a failure.
__device__ __forceinline__ void send(Fan& fan, const nccl4jCommunicator& comm, int channel,
                                     const Steps& steps, u32 signature) {
  const u64 data = fan.sendData[0];
  char* tail = tailOf(data, channel);
  u64 head = fan.implied[0], next = steps.first;
  while (head < steps.end) {
    const u64 ready = min(steps.end, head + NCCL4J_SLOTS);
    if (next < ready) {
      for (; next < ready; next++) {
        storeWordRelaxed(tail + NCCL4J_EXPOSED_FROM + slotOf(next) * sizeof(u64), (u64)steps.at(next));
        storeControl(noteOf(data, channel, next), NCCL4J_EXPOSED | steps.bytesOf(next));
        if (next == steps.first) storeControl(callOf(data, channel, next), callWord(next, signature));
      }
      fenceSystem();
      storeWordRelaxed(tail, next);
    }
    const u64 before = head;
    Patience patience(comm);
    while ((head = loadWordAcquire((void*)fan.sendCredit[0])) <= before) {
      if (patience.exhausted(fan.rank[0], channel, 1, before)) return;
    }
  }
  fan.implied[0] = steps.end;
  straight::stepsOf(fan)->sent = fan.sent[0] = steps.end;
}

// Tells the proxy of the steps from next on which it may receive once step is the oldest one. One thread.
__device__ __forceinline__ u64 want(const Fan& fan, const Steps& steps, u64 step, u64 next) {
  const u64 most = min(steps.end, step + NCCL4J_SLOTS);
  if (next == most) return next;
  char* head = (char*)fan.recvCredit[0];
  for (; next < most; next++) {
    char* wanted = head + NCCL4J_WANTED_AT + slotOf(next) * sizeof(nccl4jWanted);
    storeWordRelaxed(wanted, (u64)steps.at(next));
    storeWordRelaxed(wanted + sizeof(u64), (next + 1) << NCCL4J_WANTED_BYTES | steps.bytesOf(next));
  }
  fenceSystem();
  storeWordRelaxed(head + NCCL4J_WANTED, next);
  return next;
}

// True if a step that has come, its message's first, is of this call. One thread.
__device__ __forceinline__ bool isOfCall(const Fan& fan, const nccl4jCommunicator& comm, int channel,
                                         u64 step, u32 signature) {
  const u32 call = loadControl(callOf(fan.recvData[0], channel, step)), wanted = callWord(step, signature);
  if (call == wanted || (call == 0 && fan.carried[0] & 2)) return true;  // the network may carry no notes
  Patience::refuse((nccl4jControl*)comm.control, fan.rank[0], channel, unlikeCall(wanted, call));
  return false;
}

// What the first thread tells the block of the steps that have come.
struct Come {
  u64 end;      // behind the last, or the first that is awaited after a failure
  u32 inSlots;  // bits by slot, of the steps whose data are there
};

// Waits for a step. One thread.
__device__ __forceinline__ Come await(const Fan& fan, const nccl4jCommunicator& comm, int channel,
                                      const Steps& steps, u64 step, u32 signature) {
  const char* tail = tailOf(fan.recvData[0], channel);
  u64 end;
  Patience patience(comm);
  while ((end = loadWordAcquire(tail)) <= step)
    if (patience.exhausted(fan.rank[0], channel, 0, step)) return {step, 0};
  if (step == steps.first && !isOfCall(fan, comm, channel, step, signature)) return {step, 0};
  end = min(end, steps.end);
  u32 inSlots = 0;
  for (u64 i = step; i < end; i++)
    if (loadWordRelaxed(tail + NCCL4J_PLACED + slotOf(i) * sizeof(u64)) != i + 1) inSlots |= 1u << slotOf(i);
  return {end, inSlots};
}

// All threads.
__device__ __forceinline__ void recv(Fan& fan, Come& come, const nccl4jCommunicator& comm, int channel,
                                     const Steps& steps, u32 signature) {
  const SlotPlace slots = slotPlace(comm, SIMPLE, channel);
  u64 wanted = threadIdx.x == 0 ? want(fan, steps, steps.first, steps.first) : 0;
  for (u64 step = steps.first; step < steps.end;) {
    if (threadIdx.x == 0) come = await(fan, comm, channel, steps, step, signature);
    __syncthreads();
    const u64 end = come.end;
    const u32 inSlots = come.inSlots;
    if (end == step) return;
    for (; step < end; step++)
      if (inSlots >> slotOf(step) & 1)
        copyBlock(steps.at(step), slots.at(fan.recvData[0], step), steps.bytesOf(step));
    __syncthreads();
    if (threadIdx.x == 0) {
      wanted = want(fan, steps, end, wanted);  // before the proxy begins to receive these steps
      storeWordRelaxed((void*)fan.recvCredit[0], end);
    }
  }
  if (threadIdx.x == 0) straight::stepsOf(fan)->received = fan.received[0] = steps.end;
}

// Sends or receives a channel's share. All threads. Not inlined, so that other works keep their registers.
__device__ __noinline__ void transfer(Fan& fan, Come& come, const nccl4jCommunicator& comm, int channel, bool sends,
                                      char* data, u64 bytes, u32 signature) {
  __syncthreads();  // the first thread has set the fan
  if (!sends)
    recv(fan, come, comm, channel, Steps(comm, fan.received[0], data, bytes), signature);
  else if (threadIdx.x == 0)
    send(fan, comm, channel, Steps(comm, fan.sent[0], data, bytes), signature);
  __syncthreads();  // the next work finds the steps
}

}  // namespace exposed
}  // namespace nccl4j
