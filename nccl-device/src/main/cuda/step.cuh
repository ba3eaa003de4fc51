// A step, which collectives request and protocols execute, and its peers.
#pragma once
#include "layout.h"
#include "memory.cuh"
#include "users.cuh"

namespace nccl4j {

constexpr int kMaxFan = 32;

// True if this family has operators. Kernels that only copy have one source for each result.
#ifdef FAMILY_COPY
constexpr bool kCombines = false;
#else
constexpr bool kCombines = true;
#endif

enum StepKind : u32 {
  STEP_REDUCE,   // combine own data and all received; the result to dst and all sent to
  STEP_SCATTER,  // a part of own data to each sent to
  STEP_GATHER,   // what each sent, to its part of dst
  STEP_PIECES,   // copy pieces from or to the slot of one peer
};

enum Scale : u32 { SCALE_NONE, SCALE_OWN, SCALE_ALL };

struct Step {
  StepKind kind = STEP_REDUCE;
  const char* src = nullptr;  // own data, or null
  char* dst = nullptr;        // or null
  u32 bytes = 0;
  u32 recvMask = 0;           // of the fan
  u32 sendMask = 0;
  u32 recvCount = 0;          // steps that this kernel received so far from each of recvMask
  u32 sendCount = 0;
  u32 creditClass = 0;        // 0 or 1: masks of one class have the same sendCount
  u64 stride = 0;             // scatter, gather: rank r's part begins at r * stride
  u64 limit = ~0ull;          // end of all parts
  Scale scale = SCALE_NONE;   // data to multiply, if the operator has a factor
  bool last = false;          // final result: a mean of integers is divided
  bool learn = false;         // received data carry the number of the next round

  // Bytes of a rank's part of a scatter or gather.
  __device__ __forceinline__ u32 part(int rank) const {
    u64 begin = rank * stride;
    return begin >= limit ? 0 : (u32)(limit - begin < bytes ? limit - begin : bytes);
  }
};

// What a step does with its peers' slots. As a rule it empties and fills whole ones.
struct SlotUse {
  u32 recvAt = 0;        // where it begins to read in a slot; may differ by entry of the fan
  u32 recvAhead = 0;     // which slot that is: so many after the oldest that is not released
  bool releases = true;  // the oldest slot of each of recvMask
  u32 sendAt = 0;        // where it begins to write in the slot
  bool posts = true;     // the slot, which is full
  u32 filled = 0;        // bytes of a full slot
};

// A step that reads or fills pieces of slots, or a piece beside others' steps. Pieces begin at multiples of 16. In
// STEP_PIECES each of the first threads has src and dst of its own, and a null pointer is its piece of the slot.
struct PieceStep : Step {
  SlotUse slots;
  u32 pieces = 0;  // copied
  u32 apart = 0;   // from one to the next in the slot
};

// The ranks that a block exchanges data with on its channel. In shared memory.
struct Fan {
  int n;
  int self;  // own data come before those of fan entry self when combined
  int rank[kMaxFan];
  u64 sendData[kMaxFan];
  u64 sendCredit[kMaxFan];
  u64 recvData[kMaxFan];
  u64 recvCredit[kMaxFan];
  u64 steps[kMaxFan];  // nccl4jSteps of this channel
  // Steps at the kernel's beginning, with the call's signature on top where flags carry it (LL128):
  // so flags cost nothing more to make and to compare, and it is taken off where steps are told or kept.
  u64 signature;  // above 48 bits, or 0
  u64 sent[kMaxFan];
  u64 received[kMaxFan];
  u64 implied[kMaxFan];
  uint8_t carried[kMaxFan];  // as nccl4jSteps

  // Called by one thread for each entry, before a barrier. Returns the number of steps that the peer has
  // received, known from the head of the connection to it or from later data of the peer.
  __device__ u64 set(int i, int peer, const nccl4jPeer& p, const nccl4jCommunicator& comm, int channel,
                     bool sends = true, bool receives = true, u64 signed48 = 0) {
    const nccl4jSteps* counted = (const nccl4jSteps*)p.steps + channel;
    u64 credit = p.sendCredit + channel * NCCL4J_WORD_STRIDE;
    u64 head = p.sendCredit ? loadWordRelaxed((void*)credit) : 0;
    Pack counts = loadPack(counted);
    Pack more = loadPack(&counted->implied);
    u64 taken = more.lo;
    rank[i] = peer;
    sendData[i] = p.sendData;
    sendCredit[i] = credit;
    recvData[i] = p.recvData;
    recvCredit[i] = p.recvCredit + channel * NCCL4J_WORD_STRIDE;
    steps[i] = (u64)counted;
    sent[i] = counts.lo + signed48;
    received[i] = counts.hi + signed48;
    implied[i] = taken;
    carried[i] = more.hi & 3;
    if (users::change(more.hi, comm.user, sends, receives)) {
      const u64 word = (u64)channel * NCCL4J_WORD_STRIDE;
      users::changeTo(comm.user, (nccl4jSteps*)counted, sends ? (char*)p.sendData + word : nullptr,
                      receives ? (char*)p.recvData + word : nullptr, (nccl4jControl*)comm.control, peer,
                      channel);
    }
    return head > taken ? head : taken;
  }
};

// The place of a channel's part of a slot in a data side.
struct SlotPlace {
  u32 first;   // of slot 0, for this channel
  u32 stride;  // from slot to slot

  __device__ __forceinline__ char* at(u64 data, u64 step) const {
    return (char*)data + first + (step & (NCCL4J_SLOTS - 1)) * stride;
  }
};

__device__ __forceinline__ SlotPlace slotPlace(const nccl4jCommunicator& c, u32 protocol, int channel) {
  u32 ll = NCCL4J_HEADER_BYTES;
  u32 ll128 = ll + NCCL4J_SLOTS * c.llSlot;
  u32 simple = ll128 + NCCL4J_SLOTS * c.ll128Slot;
  u32 base = protocol == LL ? ll : protocol == LL128 ? ll128 : simple;
  u32 slot = protocol == LL ? c.llSlot : protocol == LL128 ? c.ll128Slot : c.simpleSlot;
  return {base + slot / NCCL4J_CHANNELS * channel, slot};
}

__device__ __forceinline__ char* tailOf(u64 data, int channel) {
  return (char*)data + channel * NCCL4J_WORD_STRIDE;
}

// The place and the contents of the word by which a call's first step tells the call's signature.
__device__ __forceinline__ char* callOf(u64 data, int channel, u64 step) {
  const u32 slot = step & (NCCL4J_SLOTS - 1);
  return tailOf(data, channel) + NCCL4J_CALLS + slot % 4 * sizeof(u32) + slot / 4 * NCCL4J_MORE_CALLS;
}

__device__ __forceinline__ u32 callWord(u64 step, u32 signature) {
  return signature << 16 | ((u32)(step / NCCL4J_SLOTS) & 0xffff);
}

// The signatures of this rank's call and of the sender's, for an error; the sender's is 0 if its step is not
// a call's first.
__device__ __forceinline__ u64 unlikeCall(u32 wanted, u32 found) {
  const u32 theirs = (found & 0xffff) == (wanted & 0xffff) ? found & ~0xffffu : 0;
  return (u64)(wanted & ~0xffffu) << 32 | theirs;
}

// A word beside a step's tail. It is written before the tail is posted, which follows a fence.
__device__ __forceinline__ char* noteOf(u64 data, int channel, u64 step) {
  return tailOf(data, channel) + NCCL4J_SIZES + (step & (NCCL4J_SLOTS - 1)) * sizeof(u32);
}

}  // namespace nccl4j
