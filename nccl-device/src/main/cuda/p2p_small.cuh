// Sends and receives in LL: small messages, of which a block has a few steps. So what counts is what a thread waits for one
// after the other. Each thread loads what it needs to know of the connection, beside its first data, and after one or two
// steps a kernel does not end with a store to the other rank, for which it would have to wait. A launch that has no other
// messages has a kernel of its own.
#pragma once
#include "launch.cuh"
#include "reduce.cuh"
#include "share.cuh"
#include "step.cuh"
#include "wait.cuh"

namespace nccl4j {

__device__ __forceinline__ char* p2pAddress(const nccl4jP2pArguments& a, u64 address, u32 base) {
  return (char*)(base == BASE_SEND ? a.send + address : base == BASE_RECV ? a.recv + address : address);
}

// A group's place in a launch, and the channel of it that this block has.
struct BlockOfGroup {
  u32 group, channel;
};

__device__ __forceinline__ BlockOfGroup blockOfGroup(const nccl4jP2pArguments& a, const nccl4jGroup* groups) {
  u32 g = 0, end = a.nGroups;
  while (end - g > NCCL4J_INLINE_GROUPS) {  // in a long table, first the stretch
    const u32 half = (g + end) / 2;
    if (blockIdx.x >= groups[half].firstBlock)
      g = half;
    else
      end = half;
  }
  while (g + 1 < end && blockIdx.x >= groups[g + 1].firstBlock) g++;
  const u32 channel = blockIdx.x - groups[g].firstBlock;
  if (groups[g].blockStep != 2) return {g, channel};
  return {g - (channel & 1), (channel + 1) / 2};  // two groups take blocks in turn: odd ones are of the one before
}

namespace small {

constexpr u32 kUnit = 8;  // bytes of data of a line

__device__ __forceinline__ u64 load(const char* data, u64 at, u64 bytes) {
  return at < bytes ? loadElements<uint8_t>(data + at, (u32)min((u64)kUnit, bytes - at)) : 0;
}

// One direction of the connection with a rank, on a channel.
template <bool SEND>
class End {
 public:
  __device__ __forceinline__ End(const nccl4jGroup& group, const nccl4jCommunicator& comm, int channel)
      : comm_(comm),
        place_(slotPlace(comm, LL, channel)),
        patience_(comm),
        data_(group.data),
        credit_((char*)group.credit + channel * NCCL4J_WORD_STRIDE),
        steps_((nccl4jSteps*)group.steps + channel),
        peer_(group.peer),
        channel_(channel) {
    // The first use of arguments is slow, so they are loaded before the wait.
    asm volatile("" ::"l"(data_), "l"(credit_), "l"(steps_), "l"(comm.control), "r"(comm.llSlot), "r"(comm.user));
  }

  // After what came before the kernel. All threads.
  __device__ __forceinline__ void open() {
    const u64 head = SEND ? loadWordRelaxed(credit_) : 0;
    const Pack counts = loadPack(steps_), more = loadPack(&steps_->implied);
    step_ = SEND ? counts.lo : counts.hi;
    known_ = SEND ? max(head, more.lo) : step_;
    carried_ = more.hi & (SEND ? 1 : 2);
    if (users::change(more.hi, comm_.user, SEND, !SEND)) {
      __syncthreads();  // all have loaded the steps
      char* tail = tailOf(data_, channel_);
      if (threadIdx.x == 0)
        users::changeTo(comm_.user, steps_, SEND ? tail : nullptr, SEND ? nullptr : tail,
                        (nccl4jControl*)comm_.control, peer_, channel_);
      __syncthreads();
    }
    // Kernels leave some steps untold: see recv.
    if (!SEND && threadIdx.x == 0) storeWordRelaxed(credit_, step_);
  }

  // A channel's share of a message; x are the bytes that this thread sends first.
  __device__ __forceinline__ void send(const char* data, u64 bytes, u32 signature, u64 x) {
    const u64 mine = threadIdx.x * kUnit;
    for (u64 begin = 0; begin < bytes; begin += slice(), step_++) {
      const u64 end = min(begin + slice(), bytes);
      while (known_ + NCCL4J_SLOTS <= step_ && !dead_) {
        known_ = loadWordAcquire(credit_);
        if (known_ + NCCL4J_SLOTS <= step_) dead_ = patience_.exhausted(peer_, channel_, 1, step_);
      }
      if (carried_ && threadIdx.x == 0)  // a proxy waits for the lines
        storeControl(noteOf(data_, channel_, step_), NCCL4J_LINES | (u32)(end - begin) << 16 | signature);
      const LineFlags flags((u32)(step_ + 1), signature);
      char* lines = place_.at(data_, step_);
      for (u64 at = begin + mine; at < end; at += blockDim.x * kUnit) {
        if (at != mine) x = load(data, at, bytes);
        storeLine(lines + 2 * (at - begin), x, flags);
      }
    }
  }

  // Tells the sender which steps were received, except for the last NCCL4J_UNTOLD_STEPS or fewer: of these the next kernel
  // that receives from this rank tells.
  __device__ __forceinline__ void recv(char* data, u64 bytes, u32 signature) {
    for (u64 begin = 0; begin < bytes; begin += slice()) {
      const u64 end = min(begin + slice(), bytes);
      const LineFlags flags((u32)(step_ + 1), signature);
      const char* lines = place_.at(data_, step_);
      for (u64 at = begin + threadIdx.x * kUnit; at < end; at += blockDim.x * kUnit)
        storeElements<uint8_t>(data + at, await(lines + 2 * (at - begin), flags), (u32)min((u64)kUnit, end - at));
      step_++;
      if (step_ - known_ <= NCCL4J_UNTOLD_STEPS && !carried_) continue;
      __syncthreads();
      if (threadIdx.x == 0) storeWordRelaxed(credit_, step_);
      known_ = step_;
    }
  }

  // At the end: keeps the steps for the next kernel, and returns them. All threads.
  __device__ __forceinline__ u64 close() {
    __syncthreads();
    if (threadIdx.x == 0) (SEND ? steps_->sent : steps_->received) = step_;
    return step_;
  }

 private:
  __device__ __forceinline__ u64 slice() const { return comm_.llSlot / NCCL4J_CHANNELS / 2; }

  __device__ __forceinline__ u64 await(const char* line, LineFlags flags) {
    uint4 v = loadLine(line);
    while (!flags.match(v) && !dead_) {
      v = loadLine(line);
      if (!flags.match(v)) dead_ = patience_.exhausted(peer_, channel_, 0, step_, [&] { return flags.unlike(v); });
    }
    return v.x | (u64)v.z << 32;
  }

  const nccl4jCommunicator& comm_;
  const SlotPlace place_;
  Patience patience_;
  const u64 data_;
  char* const credit_;
  nccl4jSteps* const steps_;
  const int peer_, channel_;
  u64 step_;   // the next
  u64 known_;  // steps that the peer is known to have received, or that it was told of
  u32 carried_;
  bool dead_ = false;  // waits no more
};

template <bool SEND>
__device__ __forceinline__ void run(const nccl4jP2pArguments& a, const nccl4jGroup& group, u32 channel) {
  const nccl4jWork* works = (a.works ? (const nccl4jWork*)a.works : a.inlineWorks) + group.firstWork;
  End<SEND> end(group, a.comm, channel);
  for (u32 w = 0; w < group.nWorks; w++) {
    const nccl4jWork& work = works[w];
    const Share share(work.bytes, work.parts, channel);
    char* data = p2pAddress(a, work.address, work.base) + share.begin;
    const bool has = channel < work.parts;
    if (w == 0) {
      awaitPredecessor();
      admitSuccessor(a.comm);
    }
    const u64 x = SEND && has ? load(data, threadIdx.x * kUnit, share.bytes) : 0;
    if (w == 0) end.open();
    if (!has) continue;
    if constexpr (SEND)
      end.send(data, share.bytes, work.signature, x);
    else
      end.recv(data, share.bytes, work.signature);
  }
  end.close();
}

// One message among others of a group. All threads, after a barrier behind the fan and the works before; to be followed
// by one. Not inlined, for a caller that needs its registers for other work.
template <bool SEND>
__device__ __noinline__ void transfer(Fan& fan, const nccl4jCommunicator& comm, const nccl4jGroup& group, int channel,
                                      char* data, u64 bytes, u32 signature) {
  End<SEND> end(group, comm, channel);
  const u64 x = SEND ? load(data, threadIdx.x * kUnit, bytes) : 0;
  end.open();
  if constexpr (SEND)
    end.send(data, bytes, signature, x);
  else
    end.recv(data, bytes, signature);
  const u64 step = end.close();
  if (threadIdx.x == 0) (SEND ? fan.sent[0] : fan.received[0]) = step;
}

}  // namespace small

__device__ __forceinline__ void runSmallP2p(const nccl4jP2pArguments& a) {
  const nccl4jGroup* groups = a.groups ? (const nccl4jGroup*)a.groups : a.inlineGroups;
  const BlockOfGroup mine = blockOfGroup(a, groups);
  const nccl4jGroup& group = groups[mine.group];
  if (mine.channel >= group.nBlocks) return;
  if (group.kind == GROUP_SEND)
    small::run<true>(a, group, mine.channel);
  else
    small::run<false>(a, group, mine.channel);
}

}  // namespace nccl4j
