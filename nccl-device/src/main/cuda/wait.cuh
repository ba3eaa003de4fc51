// Waits with a deadline: every loop on another device's word checks here whether to continue.
#pragma once
#include "layout.h"
#include "memory.cuh"

namespace nccl4j {

constexpr u32 kOtherCall = 3;  // failedKind

// Reports the failure, and ends all waits of the communicator's kernels.
__device__ __forceinline__ void fail(nccl4jControl* control, int peer, int channel, u32 kind, u64 step) {
  control->failedPeer = peer;
  control->failedChannel = channel;
  control->failedKind = kind;
  control->failedStep = step;
  fenceSystem();
  storeControl(&control->failed, 1);
  storeControl(&control->abort, 1);
}

class Patience {
 public:
  __device__ Patience(const nccl4jCommunicator& comm)
      : control_((nccl4jControl*)comm.control), budget_(comm.budget) {}

  // Called after each unsuccessful poll; peer, channel, kind and step are those of the wait. The abort word lies in host memory and the timer is slow, so
  // both are read rarely.
  __device__ __forceinline__ bool exhausted(int peer, int channel, u32 kind, u64 step) {
    if ((++looks_ & 1023) != 0) return false;
    start_ = look(control_, budget_, start_, {peer, channel, kind, step});
    return start_ == kGone;
  }

  // The same for data that may belong to another call. Then unlike returns the calls, in the form of
  // nccl4jControl's failedStep, else 0. Not every poll calls it.
  template <class F>
  __device__ __forceinline__ bool exhausted(int peer, int channel, u32 kind, u64 step, F unlike) {
    if ((++looks_ & 1023) != 0) return false;
    const u64 calls = unlike();
    start_ = look(control_, budget_, start_,
                  {peer, channel, calls != 0 ? kOtherCall : kind, calls != 0 ? calls : step});
    return start_ == kGone;
  }

  // The same for data with a flag (flagOf).
  __device__ __forceinline__ bool exhausted(int peer, int channel, u64 step, u64 wanted, u64 found) {
    if ((++looks_ & 1023) != 0) return false;
    const u64 calls = wanted == found ? 0 : unlikeFlag(wanted, found);
    start_ = look(control_, budget_, start_,
                  {peer, channel, calls != 0 ? kOtherCall : 0, calls != 0 ? calls : step});
    return start_ == kGone;
  }

  // Reports data of another call.
  __device__ static __noinline__ void refuse(nccl4jControl* control, int peer, int channel, u64 unlike) {
    fail(control, peer, channel, kOtherCall, unlike);
  }

 private:
  static constexpr u64 kGone = ~0ull;

  struct Awaited {
    int peer, channel;
    u32 kind;
    u64 step;
  };

  // The low bits of a start time tell waits apart, and whether another call was found.
  static constexpr u64 kFound = 1, kMark = 0xfffe, kLow = kMark | kFound;

  // Differs between a wait of a thread and its next ones.
  __device__ static __forceinline__ u64 markOf(const Awaited& a) {
    return (a.step << 4 ^ (u64)(u32)a.peer << 10 ^ (u64)(u32)a.channel << 7 ^ a.kind << 1) & kMark;
  }

  // The start time of the wait, rounded up, with its mark; or kGone. Another wait than at the last look begins anew,
  // so that the budget bounds each wait and not all of a kernel's together. Two looks of a wait must find the same
  // other call, since parts of a line may arrive one after the other. Takes and returns values only: a pointer to
  // this object would keep it, and the object that contains it, out of registers.
  __device__ static __noinline__ u64 look(nccl4jControl* control, u64 budget, u64 start, Awaited a) {
    if (loadControl(&control->abort) != 0) return kGone;
    const u64 now = nanoseconds(), mark = markOf(a) | (a.kind == kOtherCall ? kFound : 0);
    if (start == 0 || (start & kLow) != mark) return ((now + kLow) & ~kLow) | mark;
    storeWordRelaxed(&control->waiting, now << 32 | (u64)(a.peer & 0xffff) << 16 | (a.channel & 0xff) << 8 | a.kind);
    const u64 begin = start & ~kLow;
    if (a.kind != kOtherCall && (now < begin || now - begin < budget)) return start;
    fail(control, a.peer, a.channel, a.kind, a.step);
    return kGone;
  }

  nccl4jControl* control_;
  u64 budget_;
  u64 start_ = 0;
  u32 looks_ = 0;
};

}  // namespace nccl4j
