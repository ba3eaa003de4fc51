// The LL protocol: lines of 16 bytes, two words of data each followed by a flag (LineFlags).
// One flight from the sender's store to the receiver's load, at half the bandwidth.
#pragma once
#include "credit.cuh"
#include "reduce.cuh"

namespace nccl4j {

template <class T>
class LLPrimitives {
 public:
  static constexpr int kSlices = 1;
  static constexpr bool kClaims = false;
  static constexpr bool kSignsSteps = false;
  static constexpr int kUnit = 8;  // bytes of data of a thread's line
  static constexpr bool kScalesScatters = true;
  using Element = T;

  __device__ LLPrimitives(CreditShared& shared, Fan& fan, const nccl4jCommunicator& comm,
                          int channel, u32 op, const Factor<T>& factor, u32 signature)
      : fan_(fan),
        credit_(shared, fan, channel),
        patience_(comm),
        place_(slotPlace(comm, LL, channel)),
        channel_(channel),
        signature_(signature),
        nRanks_(comm.nRanks),
        op_(op),
        touch_(touchByFactor<T>(op)),
        factor_(factor) {}

  __device__ __forceinline__ void run(const Step& step) {
    if (step.sendMask) {
      credit_.take(step, patience_, dead_);
      credit_.announce(step, signature_);
    }
    u32 units = (step.bytes + kUnit - 1) / kUnit;
    for (u32 u = threadIdx.x; u < units; u += blockDim.x) {
      if (step.kind == STEP_REDUCE)
        reduce(step, u);
      else if (step.kind == STEP_SCATTER)
        scatter(step, u);
      else
        gather(step, u);
    }
    credit_.give(step);
  }

  __device__ __forceinline__ void mutual() { credit_.mutual(); }

  __device__ void remind() { credit_.remind(); }

  __device__ void finish() { credit_.close(); }

 private:
  // Peers whose lines are in flight at once, as in ll128.cuh.
  static constexpr int kGroup = kCombines && kWidens<T> && sizeof(T) == 1 ? 4 : 8;

  __device__ __forceinline__ void reduce(const Step& step, u32 u) {
    u32 at = u * kUnit;
    u32 n = min(step.bytes - at, (u32)kUnit);
    Operands<T, 1, kCombines> sum;
    u64 own = 0;
    // Own data that are combined with none are scaled and rounded at once.
    const bool first = !kWidens<T> || step.recvMask == 0;
    const bool scales = kCombines && touch_.scale, scalesOwn = scales && step.scale != SCALE_NONE;
    const bool scalesReceived = scales && step.scale == SCALE_ALL;
    if (step.src) {
      own = loadElements<T>(step.src + at, n);
      if (scalesOwn && first) own = multiplyElements<T>(own, factor_);
    }
    auto add = [&](u64 x, bool scaled) {
      const u64 words[1] = {x};
      sum.take(op_, words, insideBy<T>(op_, factor_, scaled && !first));
    };
    bool ownDone = step.src == nullptr;
    if (step.recvMask) {
      for (int g = 0; g < fan_.n; g += kGroup) {
        uint4 line[kGroup];
#pragma unroll
        for (int j = 0; j < kGroup; j++)
          if (step.recvMask >> (g + j) & 1) line[j] = loadLine(recvLine(g + j, step, u));
#pragma unroll
        for (int j = 0; j < kGroup; j++) {
          if (step.recvMask >> (g + j) & 1) {
            u64 x = await(line[j], g + j, step, u);
            if (!kWidens<T> && scalesReceived) x = multiplyElements<T>(x, factor_);
            if (!ownDone && g + j >= fan_.self) {
              add(own, scalesOwn);
              ownDone = true;
            }
            add(x, scalesReceived);
          }
        }
      }
    }
    if (!ownDone) add(own, scalesOwn);
    u64 acc[1];
    sum.result(acc);
    if (kCombines && touch_.divide && step.last) acc[0] = divideElements<T>(acc[0], nRanks_);
    if (step.sendMask) {
      for (int i = 0; i < fan_.n; i++)
        if (step.sendMask >> i & 1) send(i, step, u, acc[0]);
    }
    if (step.dst) storeElements<T>(step.dst + at, acc[0], n);
  }

  __device__ __forceinline__ void scatter(const Step& step, u32 u) {
    u32 at = u * kUnit;
    for (int i = 0; i < fan_.n; i++) {
      if (step.sendMask >> i & 1) {
        u32 bytes = step.part(fan_.rank[i]);
        if (at < bytes) {
          const char* src = step.src + fan_.rank[i] * step.stride + at;
          u64 x = loadElements<T>(src, min(bytes - at, (u32)kUnit));
          if (kCombines && touch_.scale && step.scale == SCALE_OWN) x = multiplyElements<T>(x, factor_);
          send(i, step, u, x);
        }
      }
    }
  }

  __device__ __forceinline__ void gather(const Step& step, u32 u) {
    u32 at = u * kUnit;
    for (int g = 0; g < fan_.n; g += kGroup) {
      uint4 line[kGroup];
#pragma unroll
      for (int j = 0; j < kGroup; j++)
        if (step.recvMask >> (g + j) & 1 && at < step.part(fan_.rank[g + j]))
          line[j] = loadLine(recvLine(g + j, step, u));
#pragma unroll
      for (int j = 0; j < kGroup; j++) {
        if (!(step.recvMask >> (g + j) & 1)) continue;
        int rank = fan_.rank[g + j];
        u32 bytes = step.part(rank);
        if (at >= bytes) continue;
        u64 x = await(line[j], g + j, step, u);
        storeElements<T>(step.dst + rank * step.stride + at, x, min(bytes - at, (u32)kUnit));
      }
    }
  }

  __device__ __forceinline__ const char* recvLine(int i, const Step& step, u32 u) {
    return place_.at(fan_.recvData[i], fan_.received[i] + step.recvCount) + u * 16;
  }

  __device__ __forceinline__ u64 await(uint4 line, int i, const Step& step, u32 u) {
    const LineFlags flags((u32)(fan_.received[i] + step.recvCount + 1), signature_);
    while (!flags.match(line) && !dead_) {
      line = loadLine(recvLine(i, step, u));
      if (!flags.match(line))
        dead_ = patience_.exhausted(fan_.rank[i], channel_, 0, fan_.received[i] + step.recvCount,
                                    [&] { return flags.unlike(line); });
    }
    return line.x | (u64)line.z << 32;
  }

  __device__ __forceinline__ void send(int i, const Step& step, u32 u, u64 x) {
    u64 number = fan_.sent[i] + step.sendCount;
    storeLine(place_.at(fan_.sendData[i], number) + u * 16, x, {(u32)(number + 1), signature_});
  }

  Fan& fan_;
  Credit credit_;
  Patience patience_;
  SlotPlace place_;
  int channel_;
  u32 signature_;
  int nRanks_;
  u32 op_;
  Touch touch_;
  const Factor<T>& factor_;  // in shared memory; set where touch_ scales
  bool dead_ = false;  // waits no more; later data are discarded
};

}  // namespace nccl4j
