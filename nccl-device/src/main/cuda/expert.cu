// The kernels for experts with tokens of one type (FAMILY_TYPE).
#include "expert_combine.cuh"
#include "expert_dispatch.cuh"

using namespace nccl4j;

extern "C" __global__ void __launch_bounds__(experts::kThreads, 1)
    nccl4j_dispatch(const __grid_constant__ nccl4jExpertArguments a) {
  experts::dispatch<FAMILY_TYPE, experts::Wire::SAME>(a);
}

extern "C" __global__ void __launch_bounds__(experts::kThreads, 1)
    nccl4j_dispatch_fp8(const __grid_constant__ nccl4jExpertArguments a) {
  experts::dispatch<FAMILY_TYPE, experts::Wire::FP8>(a);
}

extern "C" __global__ void __launch_bounds__(experts::kThreads, 1)
    nccl4j_combine(const __grid_constant__ nccl4jExpertArguments a) {
  experts::combine<FAMILY_TYPE>(a);
}
