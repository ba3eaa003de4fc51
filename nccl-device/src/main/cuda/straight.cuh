// Large sends store directly into the receiver's buffer, if it lies in a window: no slots, no copy out of
// slots, and one fence for all data of a channel. The receiver offers a place, or reports that it has
// none; either also acknowledges all earlier steps. The sender stores the data, notes that this step was
// stored directly, and posts it. Offers and notes carry their step's number, so none is taken for
// another's. If one rank called before the first window and the other after, they disagree on whether
// the message has an offer, and use the slots: the sender waits only a limited time for an offer, and the
// receiver reads the note once a step has arrived (Simple: its tail; LL128: its first line).
//
// A channel stores the first half of its share of a very large message. Channels differ in pace, so they
// claim the rest of all shares in units. A channel that uses slots sends its whole share; the other
// channels also store parts of that share.
#pragma once
#include "lines.cuh"
#include "share.cuh"
#include "step.cuh"
#include "unaligned.cuh"
#include "wait.cuh"

namespace nccl4j {

// Copies by all threads of a block.
__device__ __forceinline__ void copyBlock(char* to, const char* from, u64 bytes) {
  constexpr int kUnroll = 4;
  const WholePacks whole = wholePacks((u64)to, 0, bytes);
  const u32 threads = blockDim.x;
  if ((((u64)to ^ (u64)from) & 15) == 0) {
    const u64 packs = (whole.end - whole.begin) / 16;
    const uint4* source = (const uint4*)(from + whole.begin);
    uint4* target = (uint4*)(to + whole.begin);
    u64 i = threadIdx.x;
    for (; i + (kUnroll - 1) * threads < packs; i += kUnroll * threads) {
      uint4 x[kUnroll];
#pragma unroll
      for (int j = 0; j < kUnroll; j++) x[j] = source[i + j * threads];
#pragma unroll
      for (int j = 0; j < kUnroll; j++) target[i + j * threads] = x[j];
    }
    if (i < packs) {  // load the rest at once: one by one, each would cost a memory latency
      uint4 x[kUnroll];
#pragma unroll
      for (int j = 0; j < kUnroll; j++)
        if (i + j * threads < packs) x[j] = source[i + j * threads];
#pragma unroll
      for (int j = 0; j < kUnroll; j++)
        if (i + j * threads < packs) target[i + j * threads] = x[j];
    }
  } else {
    auto load = [](const void* p) {
      const ulonglong2 v = *(const ulonglong2*)p;
      return Pack{v.x, v.y};
    };
    auto store = [](void* p, Pack v) { *(ulonglong2*)p = {v.lo, v.hi}; };
    copyOutOfPhase<true>(to, from, whole, threadIdx.x, threads, load, store);
  }
  copyEdges(to, from, whole, 0, bytes, threadIdx.x);
}

namespace straight {

constexpr u64 kMostNanoseconds = 20000000;  // longest wait of a sender for an offer
constexpr u64 kLeastClaimed = 48 << 20;  // below this, claims cost more than the channels' difference
constexpr u64 kLeastUnit = 16 << 10;
constexpr u64 kMostUnit = 128 << 10;
constexpr u32 kUnits = 16;  // of a share, if the unit size is within its limits

__device__ __forceinline__ nccl4jSteps* stepsOf(const Fan& fan) { return (nccl4jSteps*)fan.steps[0]; }

// Values that the first thread shares with the block.
__device__ __forceinline__ u64 agree(u64 known) {
  __shared__ u64 shared;
  if (threadIdx.x == 0) shared = known;
  __syncthreads();
  const u64 result = shared;
  __syncthreads();
  return result;
}

// The receiver's offer for a step, or NCCL4J_NO_OFFER. One thread.
__device__ __forceinline__ u64 awaitOffer(const Fan& fan, const nccl4jCommunicator& comm, int channel,
                                          u32 signature, u64 step) {
  const char* place = (const char*)fan.sendCredit[0] + NCCL4J_OFFER;
  const LineFlags flags((u32)(step + 1), signature);
  const u64 begin = nanoseconds();
  Patience patience(comm);
  for (u32 looks = 1;; looks++) {
    const uint4 line = loadLine(place);
    if (flags.match(line)) return line.x | (u64)line.z << 32;
    const bool late = looks % 1024 == 0 && nanoseconds() - begin > kMostNanoseconds;
    if (late || patience.exhausted(fan.rank[0], channel, 1, step, [&] { return flags.unlike(line); }))
      return NCCL4J_NO_OFFER;
  }
}

// All that this channel stores of a message.
__device__ __forceinline__ void store(char* to, const char* from, const nccl4jWork& work, int channel,
                                      nccl4jSteps* claims) {
  const u64 each = Share(work.bytes, work.parts, 0).bytes, own = claims ? each / 2 & ~127ull : each;
  const u64 size = min(kMostUnit, max(kLeastUnit, each / kUnits & ~127ull));
  const u32 units = work.parts * (u32)((each - own + size - 1) / size);
  u32 next = claims && threadIdx.x == 0 ? atomicAdd(&claims->claimed, 1u) : 0;
  Share share(work.bytes, work.parts, channel);
  u64 at = 0, bytes = min(own, share.bytes);
  for (;;) {
    copyBlock(to + share.begin + at, from + share.begin + at, bytes);
    if (claims == nullptr) return;
    const u32 unit = (u32)agree(next);
    if (unit >= units) return;
    if (threadIdx.x == 0) next = atomicAdd(&claims->claimed, 1u);
    share = Share(work.bytes, work.parts, unit % work.parts);
    at = own + unit / work.parts * size;
    bytes = at < share.bytes ? min(size, share.bytes - at) : 0;
  }
}

// The channel has made its last claim. The last channel to get here resets the counts.
__device__ __forceinline__ void done(nccl4jSteps* claims, u32 parts) {
  if (claims == nullptr || atomicAdd(&claims->done, 1u) + 1 < parts) return;
  claims->claimed = 0;
  claims->done = 0;
}

// Called by all threads. False if the message uses slots.
__device__ __forceinline__ bool send(Fan& fan, const nccl4jCommunicator& comm, int channel,
                                     const nccl4jWork& work, nccl4jSteps* claims, const char* data) {
  u64 target = 0;
  if (threadIdx.x == 0 && work.target != 0) {
    const u64 step = fan.sent[0], offer = awaitOffer(fan, comm, channel, work.signature, step);
    if (offer != NCCL4J_NO_OFFER) {
      target = work.target + offer;
      storeWordRelaxed(tailOf(fan.sendData[0], channel) + NCCL4J_STRAIGHT, flagOf(step, work.signature));
    }
  }
  target = agree(target);
  if (target != 0) store((char*)target, data, work, channel, claims);
  if (threadIdx.x == 0) done(claims, work.parts);
  if (target == 0) return false;
  __syncthreads();
  if (threadIdx.x == 0) {
    fenceSystem();
    const u64 sent = ++fan.sent[0];
    storeWordRelaxed(tailOf(fan.sendData[0], channel), sent);
    stepsOf(fan)->sent = sent;
  }
  return true;
}

// Same as send. Also true if nothing arrived, since there is nothing to continue then.
__device__ __forceinline__ bool recv(Fan& fan, const nccl4jCommunicator& comm, int channel,
                                     const nccl4jWork& work) {
  bool done = false;
  if (threadIdx.x == 0) {
    const u64 received = fan.received[0];
    storeWordRelaxed((void*)fan.recvCredit[0], received);
    storeLine((char*)fan.recvCredit[0] + NCCL4J_OFFER, work.target, {(u32)(received + 1), work.signature});
    if (work.target != NCCL4J_NO_OFFER) {
      const char* tail = tailOf(fan.recvData[0], channel);
      const char* flag = slotPlace(comm, LL128, channel).at(fan.recvData[0], received) + lines::kFlag;
      Patience patience(comm);
      for (u32 looks = 1; !done && loadWordAcquire(tail) <= received; looks++) {
        if (looks % 64 == 0 && work.protocol == LL128 && sameStep(loadWordRelaxed(flag), received + 1)) break;
        done = patience.exhausted(fan.rank[0], channel, 0, received);
      }
      const u64 wanted = flagOf(received, work.signature), note = loadWordRelaxed(tail + NCCL4J_STRAIGHT);
      if (!done && sameStep(note, wanted)) {
        if (note != wanted)
          Patience::refuse((nccl4jControl*)comm.control, fan.rank[0], channel, unlikeFlag(wanted, note));
        stepsOf(fan)->received = fan.received[0] = received + 1;
        done = true;
      }
    }
  }
  return agree(done) != 0;
}

}  // namespace straight
}  // namespace nccl4j
