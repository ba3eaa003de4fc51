// A kernel may begin before its predecessor in the stream has ended (programmatic dependent launch,
// compute capability 9.0). Its blocks start on the multiprocessors early and wait there. PTX:
// griddepcontrol.
#pragma once
#include "layout.h"

namespace nccl4j {

// Returns once everything before this kernel has ended and can be seen. Every thread calls it before
// it touches memory that another kernel or the host may have written.
__device__ __forceinline__ void awaitPredecessor() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Lets the next kernel's blocks start when all blocks of this one have said so or ended.
__device__ __forceinline__ void launchSuccessor() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// For a kernel so small that the next one's blocks beside it leave room for other kernels, which it may wait for.
// Called after awaitPredecessor, so that at most one kernel waits.
__device__ __forceinline__ void admitSuccessor(const nccl4jCommunicator& comm) {
  if (comm.flags & ADMITS_AT_ONCE) launchSuccessor();
}

// Called once the same block of all ranks is known to run. Where that is so for all blocks, the kernel ends whatever
// takes the rest of the GPU.
__device__ __forceinline__ void admitWhenMet(const nccl4jCommunicator& comm) {
  if (comm.flags & ADMITS_WHEN_MET) launchSuccessor();
}

}  // namespace nccl4j
