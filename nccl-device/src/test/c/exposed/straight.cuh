// Stands for the kernels' header of this name: what exposed.cuh needs of it.
#pragma once
#include "step.cuh"
#include "wait.cuh"

namespace nccl4j {

inline void copyBlock(char* to, const char* from, u64 bytes) {
  for (u64 at = threadIdx.x; at < bytes; at += blockDim.x) {
    to[at] = from[at];
    if (at % 61 == 0) simt::giveWay();
  }
}

namespace straight {

inline nccl4jSteps* stepsOf(const Fan& fan) { return (nccl4jSteps*)fan.steps[0]; }

}  // namespace straight
}  // namespace nccl4j
