// NVLS between machines for one type of element (FAMILY_TYPE): by the switch, and emulated.
#define NCCL4J_NVLS_COPIES false
#include "nvls_tree.cuh"

using namespace nccl4j;

extern "C" __global__ void __launch_bounds__(nvls::kTreeThreads, 1)
    nccl4j_nvls_tree_driver(const __grid_constant__ nccl4jNvlsTreeArguments a) {
  nvls::runTree<FAMILY_TYPE, SwitchAccess<FAMILY_TYPE>>(a);
}

extern "C" __global__ void __launch_bounds__(nvls::kTreeThreads, 1)
    nccl4j_nvls_tree_emulated(const __grid_constant__ nccl4jNvlsTreeArguments a) {
  nvls::runTree<FAMILY_TYPE, EmulatedAccess<FAMILY_TYPE>>(a);
}
