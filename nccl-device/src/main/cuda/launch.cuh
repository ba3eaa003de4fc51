// A kernel may begin before its predecessor in the stream has ended (programmatic dependent launch,
// compute capability 9.0). Its blocks start on the multiprocessors early and wait there. PTX:
// griddepcontrol.
#pragma once

namespace nccl4j {

// Returns once everything before this kernel has ended and can be seen. Every thread calls it before
// it touches memory that another kernel or the host may have written.
__device__ __forceinline__ void awaitPredecessor() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Lets the next kernel's blocks start. Called after awaitPredecessor, so that at most one kernel waits and
// others find room.
__device__ __forceinline__ void admitSuccessor() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace nccl4j
