// Stands for the kernels' header of this name, for a schedule on the host.
#pragma once
#include "layout.h"
#include "memory.cuh"

namespace nccl4j {
namespace users {

bool change(u64, u32, bool, bool);
void changeTo(u32, nccl4jSteps*, char*, char*, nccl4jControl*, int, int);

}  // namespace users
}  // namespace nccl4j
