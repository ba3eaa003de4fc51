// Sends and receives with LL128. Such messages are large enough for bandwidth to matter, and small enough
// for a fence and a copy of the last slot behind it to be expensive. Half of a connection's slots are one
// pass. A thread has a part of each slot of a pass in flight at once. While the receiver takes a pass, the
// sender fills the next.
//
// A warp moves four lines at a time, a group: 480 bytes of data. Seven threads of each line have 16 bytes
// of the first 448, the eighth has 8 of the rest beside the flag; so all loads and stores are whole and
// lie side by side. A group that the data end in is sent whole.
#pragma once
#include "reduce.cuh"
#include "step.cuh"
#include "wait.cuh"

namespace nccl4j {
namespace lines {

constexpr int kWarps = 16;  // warps that move data; a block may have more
constexpr u32 kPassSlots = NCCL4J_SLOTS / 2;
constexpr u32 kGroup = 480;  // bytes of data of four lines
constexpr u32 kFlag = 120;   // offset of the flag in a line

// This thread's part of a message.
class Part {
 public:
  __device__ Part(const nccl4jCommunicator& comm, int channel, u64 user)
      : place_(slotPlace(comm, LL128, channel)) {
    const u32 warp = threadIdx.x / 32, line = threadIdx.x % 32 / 8, eighth = threadIdx.x % 8;
    const u32 groups = min(comm.ll128Slot / NCCL4J_CHANNELS / 512, (u32)kWarps);
    const u32 shift = 32 - __clz(groups - 1);  // as if there were a power of two of them
    const u32 group = warp & ((1u << shift) - 1);
    slotBytes_ = groups * kGroup;
    first_ = group < groups && warp < kWarps ? warp >> shift : kPassSlots;
    step_ = kWarps >> shift;
    group_ = group * kGroup;
    flagged_ = eighth == 7;
    at_ = flagged_ ? 28 * 16 + line * 8 : (line * 7 + eighth) * 16;
    line_ = group * 512 + threadIdx.x % 32 * 16;
    aligned_ = (user & 15) == 0;
  }

  __device__ __forceinline__ u32 passBytes() const { return kPassSlots * slotBytes_; }
  __device__ __forceinline__ u32 slots(u32 bytes) const { return (bytes + slotBytes_ - 1) / slotBytes_; }
  __device__ __forceinline__ bool flagged() const { return flagged_; }

  // The slot of the j-th group that this warp has in a pass, and where that lies in the data.
  __device__ __forceinline__ u32 slot(int j) const { return first_ + j * step_; }
  __device__ __forceinline__ u32 group(int j) const { return slot(j) * slotBytes_ + group_; }
  __device__ __forceinline__ bool has(int j, u32 bytes) const {
    return slot(j) < kPassSlots && group(j) < bytes;
  }

  __device__ __forceinline__ char* line(u64 side, u64 pass, int j) const {
    return place_.at(side, pass + slot(j)) + line_;
  }

  // True if that group can be moved in whole packs.
  __device__ __forceinline__ bool whole(int j, u32 bytes) const {
    return aligned_ && slot(j) < kPassSlots && group(j) + kGroup <= bytes;
  }

  // Of a whole group.
  __device__ __forceinline__ Pack load(const char* data, int j) const {
    const char* from = data + group(j) + at_;
    if (flagged_) return {*(const volatile u64*)from, 0};
    return loadPack(from);
  }

  __device__ __forceinline__ void store(char* data, int j, const Pack& x) const {
    char* to = data + group(j) + at_;
    if (flagged_)
      *(u64*)to = x.lo;
    else
      storePack(to, x);
  }

  // Of any other.
  __device__ __forceinline__ Pack loadSome(const char* data, int j, u32 bytes) const {
    const u32 at = group(j) + at_;
    const char* from = data + at;
    return {at < bytes ? loadElements<uint8_t>(from, bytes - at) : 0,
            !flagged_ && at + 8 < bytes ? loadElements<uint8_t>(from + 8, bytes - at - 8) : 0};
  }

  __device__ __forceinline__ void storeSome(char* data, int j, u32 bytes, const Pack& x) const {
    const u32 at = group(j) + at_;
    char* to = data + at;
    if (at < bytes) storeElements<uint8_t>(to, x.lo, bytes - at);
    if (!flagged_ && at + 8 < bytes) storeElements<uint8_t>(to + 8, x.hi, bytes - at - 8);
  }

 private:
  SlotPlace place_;
  u32 slotBytes_, first_, step_, group_, at_, line_;
  bool flagged_, aligned_;
};

// A channel's share. All threads, after a barrier that publishes the fan; to be followed by one.
__device__ __forceinline__ void send(Fan& fan, const nccl4jCommunicator& comm, int channel,
                                  const char* data, u64 left, u32 signature) {
  const Part part(comm, channel, (u64)data);
  u64 sent = fan.sent[0], head = fan.implied[0];
  Patience patience(comm);
  bool dead = false;
  while (left > 0) {
    const u32 bytes = (u32)min(left, (u64)part.passBytes()), slots = part.slots(bytes);
    Pack x[kPassSlots];
#pragma unroll
    for (int j = 0; j < kPassSlots; j++)
      if (part.whole(j, bytes)) x[j] = part.load(data, j);
    while (part.has(0, bytes) && head + NCCL4J_SLOTS < sent + slots && !dead) {  // meanwhile
      head = loadWordAcquire((void*)fan.sendCredit[0]);
      if (head + NCCL4J_SLOTS < sent + slots)
        dead = patience.exhausted(fan.rank[0], channel, 1, sent);
    }
    __syncwarp();
    auto put = [&](int j, Pack y) {
      if (part.flagged()) y.hi = flagOf(sent + part.slot(j), signature);
      storePack(part.line(fan.sendData[0], sent, j), y);
    };
#pragma unroll
    for (int j = 0; j < kPassSlots; j++)
      if (part.whole(j, bytes)) put(j, x[j]);
#pragma unroll 1
    for (int j = 0; j < kPassSlots; j++) {
      if (!part.has(j, bytes) || part.whole(j, bytes)) continue;
      const Pack y = part.loadSome(data, j, bytes);
      __syncwarp();
      put(j, y);
    }
    sent += slots;
    data += bytes;
    left -= bytes;
  }
  __syncthreads();
  if (threadIdx.x == 0) ((nccl4jSteps*)fan.steps[0])->sent = fan.sent[0] = sent;
}

// Likewise.
__device__ __forceinline__ void recv(Fan& fan, const nccl4jCommunicator& comm, int channel, char* data,
                                  u64 left, u32 signature) {
  const Part part(comm, channel, (u64)data);
  u64 received = fan.received[0];
  Patience patience(comm);
  bool dead = false;
  while (left > 0) {
    const u32 bytes = (u32)min(left, (u64)part.passBytes());
    auto look = [&](int j) { return loadPack(part.line(fan.recvData[0], received, j)); };
    auto await = [&](int j, Pack& y) {
      const u64 flag = flagOf(received + part.slot(j), signature);
      while (!__all_sync(~0u, !part.flagged() || y.hi == flag || dead)) {
        y = look(j);
        if (part.flagged() && y.hi != flag && !dead)
          dead = patience.exhausted(fan.rank[0], channel, received, flag, y.hi);
      }
    };
    Pack x[kPassSlots];
    __syncwarp();  // as before lines are stored: see ll128.cuh
#pragma unroll
    for (int j = 0; j < kPassSlots; j++)
      if (part.whole(j, bytes)) x[j] = look(j);
#pragma unroll
    for (int j = 0; j < kPassSlots; j++) {
      if (!part.whole(j, bytes)) continue;
      await(j, x[j]);
      part.store(data, j, x[j]);
    }
#pragma unroll 1
    for (int j = 0; j < kPassSlots; j++) {
      if (!part.has(j, bytes) || part.whole(j, bytes)) continue;
      __syncwarp();
      Pack y = look(j);
      await(j, y);
      part.storeSome(data, j, bytes, y);
    }
    received += part.slots(bytes);
    data += bytes;
    left -= bytes;
    __syncthreads();
    if (threadIdx.x == 0) storeWordRelaxed((void*)fan.recvCredit[0], received);
  }
  if (threadIdx.x == 0) ((nccl4jSteps*)fan.steps[0])->received = fan.received[0] = received;
}

}  // namespace lines
}  // namespace nccl4j
