// Waiting that ends: every loop on a word of another device asks here whether to go on.
#pragma once
#include "layout.h"
#include "memory.cuh"

namespace nccl4j {

class Patience {
 public:
  __device__ Patience(const nccl4jCommunicator& comm)
      : control_((nccl4jControl*)comm.control), budget_(comm.budget) {}

  // Called after each look that found nothing. The abort word lies with the host and the timer is
  // slow, so both are looked at seldom.
  __device__ __forceinline__ bool exhausted(int peer, int channel, u32 kind, u64 step) {
    if ((++looks_ & 1023) != 0) return false;
    return expired(peer, channel, kind, step);
  }

 private:
  __device__ __noinline__ bool expired(int peer, int channel, u32 kind, u64 step) {
    if (loadControl(&control_->abort) != 0) return true;
    u64 now = nanoseconds();
    if (start_ == 0) start_ = now;
    if (now - start_ < budget_) return false;
    control_->failedPeer = peer;
    control_->failedChannel = channel;
    control_->failedKind = kind;
    control_->failedStep = step;
    fenceSystem();
    storeControl(&control_->failed, 1);
    storeControl(&control_->abort, 1);
    return true;
  }

  nccl4jControl* control_;
  u64 budget_;
  u64 start_ = 0;
  u32 looks_ = 0;
};

}  // namespace nccl4j
