// The LL128 protocol: lines of 128 bytes, 120 of data and a flag made of the step and the call's
// signature, each stored by
// eight threads of a warp in one instruction. NVLink keeps such a store whole. A warp's threads converge
// before they store lines and before they first read them. Else threads that diverged in their loads
// would store, or read, after the flag's thread.
#pragma once
#include "credit.cuh"
#include "reduce.cuh"

namespace nccl4j {

template <class T>
class LL128Primitives {
 public:
  static constexpr int kSlices = 1;
  static constexpr bool kClaims = false;
  static constexpr bool kSignsSteps = true;
  static constexpr bool kScalesScatters = true;
  using Element = T;

  __device__ LL128Primitives(CreditShared& shared, Fan& fan, const nccl4jCommunicator& comm,
                             int channel, u32 op, const Factor<T>& factor, u32 /* signature */)
      : fan_(fan),
        credit_(shared, fan, channel),
        patience_(comm),
        place_(slotPlace(comm, LL128, channel)),
        channel_(channel),
        nRanks_(comm.nRanks),
        op_(op),
        touch_(touchByFactor<T>(op)),
        factor_(factor),
        eighth_(threadIdx.x & 7),
        flagged_((threadIdx.x & 7) == 7) {}

  __device__ __forceinline__ void run(const Step& step) {
    if (step.sendMask) credit_.take(step, patience_, dead_);
    u32 lines = (step.bytes + 119) / 120;
    // All lanes of a warp stay converged. Lanes beyond the last line only vote.
    for (u32 first = threadIdx.x / 32 * 4; first < lines; first += blockDim.x / 32 * 4) {
      u32 line = first + threadIdx.x % 32 / 8;
      if (step.kind == STEP_REDUCE)
        reduce(step, line);
      else if (step.kind == STEP_SCATTER)
        scatter(step, line);
      else
        gather(step, line);
    }
    credit_.give(step);
  }

  __device__ __forceinline__ void mutual() { credit_.mutual(); }

  __device__ void remind() { credit_.remind(); }

  __device__ void finish() { credit_.close(); }

 private:
  // Peers whose lines are in flight at once. Elements of one byte take four times their registers while they
  // are combined.
  static constexpr int kGroup = kCombines && kWidens<T> && sizeof(T) == 1 ? 1 : 4;

  __device__ __forceinline__ void reduce(const Step& step, u32 line) {
    bool active = line * 120 < step.bytes;
    u64 own[2] = {0, 0};
    Operands<T, 2, kCombines> sum{};
    // As in ll.cuh.
    const bool first = !kWidens<T> || step.recvMask == 0;
    const bool scales = kCombines && touch_.scale, scalesOwn = scales && step.scale != SCALE_NONE;
    const bool scalesReceived = scales && step.scale == SCALE_ALL;
    if (step.src) {
      load(own, step.src, step.bytes, line);
      if (scalesOwn && first) scale(own);
    }
    bool ownDone = step.src == nullptr;
    auto add = [&](const u64(&x)[2], bool scaled) {
      sum.take(op_, x, insideBy<T>(op_, factor_, scaled && !first));
    };
    if (step.recvMask) {
      for (int g = 0; g < fan_.n; g += kGroup) {
        Pack x[kGroup];
        __syncwarp();
#pragma unroll
        for (int j = 0; j < kGroup; j++)
          if (step.recvMask >> (g + j) & 1 && active) x[j] = loadPack(recvAt(g + j, step, line));
#pragma unroll
        for (int j = 0; j < kGroup; j++) {
          if (step.recvMask >> (g + j) & 1) {
            Pack y = await(x[j], active, g + j, step, line);
            u64 words[2] = {y.lo, y.hi};
            if (!kWidens<T> && scalesReceived) scale(words);
            if (!ownDone && g + j >= fan_.self) {
              add(own, scalesOwn);
              ownDone = true;
            }
            add(words, scalesReceived);
          }
        }
      }
    }
    if (!ownDone) add(own, scalesOwn);
    u64 acc[2];
    sum.result(acc);
    if (kCombines && touch_.divide && step.last) {
      acc[0] = divideElements<T>(acc[0], nRanks_);
      acc[1] = divideElements<T>(acc[1], nRanks_);
    }
    if (step.sendMask) __syncwarp();
    if (step.sendMask && active) {
      for (int i = 0; i < fan_.n; i++)
        if (step.sendMask >> i & 1) send(i, step, line, acc);
    }
    if (step.dst) store(acc, step.dst, step.bytes, line);
  }

  __device__ __forceinline__ void scatter(const Step& step, u32 line) {
    const bool scales = kCombines && touch_.scale && step.scale == SCALE_OWN;
    for (int i = 0; i < fan_.n; i++) {
      if (step.sendMask >> i & 1) {
        u32 bytes = step.part(fan_.rank[i]);
        bool active = line * 120 < bytes;
        u64 x[2] = {0, 0};
        if (active) load(x, step.src + fan_.rank[i] * step.stride, bytes, line);
        if (active && scales) scale(x);
        __syncwarp();
        if (active) send(i, step, line, x);
      }
    }
  }

  __device__ __forceinline__ void gather(const Step& step, u32 line) {
    for (int i = 0; i < fan_.n; i++) {
      if (step.recvMask >> i & 1) {
        u32 bytes = step.part(fan_.rank[i]);
        bool active = line * 120 < bytes;
        Pack x = {0, 0};
        __syncwarp();
        if (active) x = loadPack(recvAt(i, step, line));
        x = await(x, active, i, step, line);
        u64 words[2] = {x.lo, x.hi};
        if (active) store(words, step.dst + fan_.rank[i] * step.stride, bytes, line);
      }
    }
  }

  // This thread's two words of a line of the user's data; the flag's place stays 0.
  __device__ __forceinline__ void load(u64 (&x)[2], const char* src, u32 bytes, u32 line) {
    u32 at = line * 120 + eighth_ * 16;
    x[0] = at < bytes ? loadElements<T>(src + at, bytes - at) : 0;
    x[1] = !flagged_ && at + 8 < bytes ? loadElements<T>(src + at + 8, bytes - at - 8) : 0;
  }

  __device__ __forceinline__ void store(const u64 (&x)[2], char* dst, u32 bytes, u32 line) {
    u32 at = line * 120 + eighth_ * 16;
    if (at < bytes) storeElements<T>(dst + at, x[0], bytes - at);
    if (!flagged_ && at + 8 < bytes) storeElements<T>(dst + at + 8, x[1], bytes - at - 8);
  }

  __device__ __forceinline__ void scale(u64 (&x)[2]) {
    x[0] = multiplyElements<T>(x[0], factor_);
    x[1] = multiplyElements<T>(x[1], factor_);
  }

  __device__ __forceinline__ const char* recvAt(int i, const Step& step, u32 line) {
    return place_.at(fan_.recvData[i], fan_.received[i] + step.recvCount) + line * 128 +
           eighth_ * 16;
  }

  __device__ __forceinline__ Pack await(Pack x, bool active, int i, const Step& step, u32 line) {
    const u64 number = fan_.received[i] + step.recvCount, flag = number + 1;
    while (!__all_sync(~0u, !active || !flagged_ || x.hi == flag || dead_)) {
      if (active) x = loadPack(recvAt(i, step, line));
      if (active && flagged_ && x.hi != flag && !dead_)
        dead_ = patience_.exhausted(fan_.rank[i], channel_, number - fan_.signature, flag, x.hi);
    }
    return x;
  }

  __device__ __forceinline__ void send(int i, const Step& step, u32 line, const u64 (&x)[2]) {
    u64 number = fan_.sent[i] + step.sendCount;
    char* to = place_.at(fan_.sendData[i], number) + line * 128 + eighth_ * 16;
    storePack(to, {x[0], flagged_ ? number + 1 : x[1]});
  }

  Fan& fan_;
  Credit credit_;
  Patience patience_;
  SlotPlace place_;
  int channel_;
  int nRanks_;
  u32 op_;
  Touch touch_;
  const Factor<T>& factor_;  // in shared memory; set where touch_ scales
  u32 eighth_;
  bool flagged_;
  bool dead_ = false;
};

}  // namespace nccl4j
