// The kernels of exchanges whose counts lie in device memory.
#include "ragged.cuh"
#include "ragged_sum.cuh"

using namespace nccl4j;

extern "C" __global__ void __launch_bounds__(ragged::kThreads)
    nccl4j_ragged(const __grid_constant__ nccl4jRaggedArguments a) {
  __shared__ ragged::Shared s;
  ragged::exchange(a, s);
}

#define NCCL4J_RAGGED_SUM(FAMILY, ELEMENT, ARITHMETIC, SWITCH, PTX)                 \
  extern "C" __global__ void __launch_bounds__(ragged::kSumThreads)                \
      nccl4j_ragged_sum_##FAMILY(const __grid_constant__ nccl4jRaggedSumArguments a) { \
    ragged::sumCopies<family_##FAMILY>(a);                                         \
  }
NCCL4J_TYPES(NCCL4J_RAGGED_SUM)
