// The kernels for experts with tokens of one type (FAMILY_TYPE).
#include "expert_combine.cuh"
#include "expert_dispatch.cuh"
#include "expert_pack.cuh"

using namespace nccl4j;

extern "C" __global__ void __launch_bounds__(experts::kThreads, 1)
    nccl4j_dispatch(const __grid_constant__ nccl4jExpertArguments a) {
  __shared__ experts::DispatchShared s;
  experts::dispatch<FAMILY_TYPE, experts::Wire::SAME>(a, s);
}

extern "C" __global__ void __launch_bounds__(experts::kThreads, 1)
    nccl4j_dispatch_fp8(const __grid_constant__ nccl4jExpertArguments a) {
  __shared__ experts::DispatchShared s;
  experts::dispatch<FAMILY_TYPE, experts::Wire::FP8>(a, s);
}

extern "C" __global__ void __launch_bounds__(experts::kThreads, 1)
    nccl4j_combine(const __grid_constant__ nccl4jExpertArguments a) {
  experts::combine<FAMILY_TYPE>(a);
}

extern "C" __global__ void __launch_bounds__(experts::kPackThreads, experts::kPackBlocks)
    nccl4j_expert_rows(const __grid_constant__ nccl4jExpertPackArguments a) {
  experts::moveRows(a);
}

extern "C" __global__ void __launch_bounds__(experts::kPackThreads, experts::kPackBlocks)
    nccl4j_expert_fp8(const __grid_constant__ nccl4jExpertPackArguments a) {
  experts::packFp8<FAMILY_TYPE>(a);
}

extern "C" __global__ void __launch_bounds__(experts::kPackThreads, experts::kPackBlocks)
    nccl4j_expert_sum(const __grid_constant__ nccl4jExpertPackArguments a) {
  experts::addOutputs<FAMILY_TYPE>(a);
}
