// The kernels of quantised sums of one type of element (FAMILY_TYPE).
#include "quantise.cuh"

using namespace nccl4j;

extern "C" __global__ void __launch_bounds__(quantise::kThreads, quantise::kBlocks)
    nccl4j_quantise(const __grid_constant__ nccl4jQuantiseArguments a) {
  quantise::quantise<FAMILY_TYPE>(a);
}

extern "C" __global__ void __launch_bounds__(quantise::kThreads, quantise::kBlocks)
    nccl4j_quantised_sum(const __grid_constant__ nccl4jQuantiseArguments a) {
  quantise::sum<FAMILY_TYPE>(a);
}

extern "C" __global__ void __launch_bounds__(quantise::kThreads, quantise::kBlocks)
    nccl4j_dequantise(const __grid_constant__ nccl4jQuantiseArguments a) {
  quantise::dequantise<FAMILY_TYPE>(a);
}
