// Credit for the protocols whose flags travel with the data (LL and LL128): all threads of a block
// move data. The first warp manages heads, and lane i manages fan entry i.
#pragma once
#include "step.cuh"
#include "wait.cuh"

namespace nccl4j {

struct CreditShared {
  u32 limit[2];  // by credit class: steps with a lower sendCount need not read the heads
  u32 carried;   // fan entries whose connections proxies carry
};

class Credit {
 public:
  // Called by all threads after the fan is set, before the barrier that publishes both.
  __device__ static void open(CreditShared& shared, u64 head, u64 sent, bool used, bool carried) {
    if (threadIdx.x < 32) {
      const u32 entries = __ballot_sync(~0u, carried);
      if (threadIdx.x == 0) shared.carried = entries;
      u32 margin = used ? (u32)(head + NCCL4J_SLOTS - sent) : NCCL4J_SLOTS;
      margin = minOfWarp(margin);
      if (threadIdx.x < 2) shared.limit[threadIdx.x] = margin;
    }
  }

  __device__ Credit(CreditShared& shared, Fan& fan, int channel)
      : shared_(shared), fan_(fan), channel_(channel), carried_(shared.carried) {}

  // Before a step's first store. All threads.
  __device__ __forceinline__ void take(const Step& step, Patience& patience, bool& dead) {
    if (step.sendMask >> threadIdx.x % 32 & 1) sent_++;
    if (step.sendCount < shared_.limit[step.creditClass]) return;
    __syncthreads();
    if (threadIdx.x < 32) {
      int i = threadIdx.x;
      u32 margin = ~0u;
      if (step.sendMask >> i & 1) {
        do {
          u64 head = loadWordAcquire((void*)fan_.sendCredit[i]);
          if (head < fan_.implied[i]) head = fan_.implied[i];  // mutual kernels posted no heads
          margin = (u32)(head + NCCL4J_SLOTS - fan_.sent[i]);
          if (dead) margin = ~0u;
          if (margin <= step.sendCount)
            dead = patience.exhausted(fan_.rank[i], channel_, 1, fan_.sent[i] - fan_.signature + step.sendCount);
        } while (margin <= step.sendCount);
      }
      margin = minOfWarp(margin);
      if (i == 0) shared_.limit[step.creditClass] = margin;
    }
    __syncthreads();
  }

  // After a step's credit, before its lines are stored. Tells proxies the step's size, so that one flight
  // brings both; a proxy waits for the lines' flags.
  __device__ __forceinline__ void announce(const Step& step, u32 signature) {
    if (carried_ == 0 || threadIdx.x >= 32) return;
    const int i = threadIdx.x;
    if (!((step.sendMask & carried_) >> i & 1) || !(fan_.carried[i] & 1)) return;
    const u32 bytes = step.kind == STEP_SCATTER ? step.part(fan_.rank[i]) : step.bytes;
    storeControl(noteOf(fan_.sendData[i], channel_, fan_.sent[i] + step.sendCount),
                 NCCL4J_LINES | bytes << 16 | signature);
  }

  // After a step's last load. All threads. Posts the head of a sender at every fourth step, which is
  // often enough for eight slots.
  __device__ __forceinline__ void give(const Step& step) {
    if (step.recvMask == 0) return;
    if (step.recvMask >> threadIdx.x % 32 & 1) received_++;
    if ((step.recvCount & 3) == 3) tell();
  }

  // This kernel exchanges few steps both ways with all peers. Then heads need not be posted: a peer's
  // data of a later kernel imply that it has received these steps. A kernel that ends with a store to a
  // peer waits for the store to arrive. Proxies receive by heads, so a kernel with a carried peer posts
  // all; the kernels of its other peers may post none.
  __device__ __forceinline__ void mutual() {
    exchanges_ = true;
    mutual_ = carried_ == 0;
  }

  // Posts the heads that earlier mutual kernels did not post. Called before code that needs all slots.
  __device__ void remind() {
    int i = threadIdx.x;
    if (i < fan_.n && fan_.rank[i] >= 0)
      storeWordRelaxed((void*)fan_.recvCredit[i], fan_.received[i] - fan_.signature);
  }

  // At the end: posts the remaining heads and stores the steps for the next kernel. All threads. In a
  // mutual kernel other warps may still be receiving, so the fan is not changed.
  __device__ void close() {
    if (!mutual_) tell();
    if (threadIdx.x < 32 && threadIdx.x < fan_.n && fan_.rank[threadIdx.x] >= 0) {
      int i = threadIdx.x;
      nccl4jSteps* steps = (nccl4jSteps*)fan_.steps[i];
      // A peer whose data arrived is in this kernel, so it has received all earlier steps. A proxy may not
      // have taken them back yet.
      if (exchanges_ && received_ && !(carried_ >> i & 1)) steps->implied = fan_.sent[i] - fan_.signature;
      u64 sent = fan_.sent[i] + sent_, received = fan_.received[i] + received_;
      if (sent_) steps->sent = sent - fan_.signature;
      if (received_) steps->received = received - fan_.signature;
      if (!mutual_) {
        fan_.sent[i] = sent;
        fan_.received[i] = received;
      }
    }
  }

 private:
  __device__ void tell() {
    __syncthreads();
    if (threadIdx.x < fan_.n && received_ != told_) {
      int i = threadIdx.x;
      storeWordRelaxed((void*)fan_.recvCredit[i], fan_.received[i] - fan_.signature + received_);
      told_ = received_;
    }
  }

  __device__ static u32 minOfWarp(u32 x) {
    for (int i = 16; i > 0; i /= 2) x = min(x, __shfl_xor_sync(~0u, x, i));
    return x;
  }

  CreditShared& shared_;
  Fan& fan_;
  int channel_;
  u32 carried_;
  bool exchanges_ = false, mutual_ = false;
  u32 sent_ = 0, received_ = 0, told_ = 0;  // of fan entry threadIdx.x, in the first warp
};

}  // namespace nccl4j
