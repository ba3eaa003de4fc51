// The kernel of exchanges whose counts lie in device memory.
#include "ragged.cuh"

using namespace nccl4j;

extern "C" __global__ void __launch_bounds__(ragged::kThreads)
    nccl4j_ragged(const __grid_constant__ nccl4jRaggedArguments a) {
  __shared__ ragged::Shared s;
  ragged::exchange(a, s);
}
