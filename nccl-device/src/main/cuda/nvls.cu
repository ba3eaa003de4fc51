// NVLS for one type of element (FAMILY_TYPE), or for what only copies: by the switch, and emulated.
#ifdef FAMILY_COPY
#define NCCL4J_NVLS_COPIES true
#else
#define NCCL4J_NVLS_COPIES false
#endif
#include "nvls.cuh"
#include "nvls_direct.cuh"

using namespace nccl4j;

extern "C" __global__ void __launch_bounds__(nvls::kThreads, 1)
    nccl4j_nvls_driver(const __grid_constant__ nccl4jNvlsArguments a) {
  nvls::run<FAMILY_TYPE, SwitchAccess<FAMILY_TYPE>>(a);
}

extern "C" __global__ void __launch_bounds__(nvls::kThreads, 1)
    nccl4j_nvls_emulated(const __grid_constant__ nccl4jNvlsArguments a) {
  nvls::run<FAMILY_TYPE, EmulatedAccess<FAMILY_TYPE>>(a);
}

extern "C" __global__ void __launch_bounds__(direct::kThreads, 1)
    nccl4j_nvls_window_driver(const __grid_constant__ nccl4jNvlsDirectArguments a) {
  nvls::windows<FAMILY_TYPE, nvls::SwitchForm<FAMILY_TYPE>>(a);
}

extern "C" __global__ void __launch_bounds__(direct::kThreads, 1)
    nccl4j_nvls_window_emulated(const __grid_constant__ nccl4jNvlsDirectArguments a) {
  nvls::windows<FAMILY_TYPE, nvls::EmulatedForm<FAMILY_TYPE>>(a);
}

extern "C" __global__ void __launch_bounds__(direct::kThreads, 1)
    nccl4j_nvls_ll_driver(const __grid_constant__ nccl4jNvlsDirectArguments a) {
  nvls::lines<FAMILY_TYPE, nvls::SwitchForm<FAMILY_TYPE>>(a);
}

extern "C" __global__ void __launch_bounds__(direct::kThreads, 1)
    nccl4j_nvls_ll_emulated(const __grid_constant__ nccl4jNvlsDirectArguments a) {
  nvls::lines<FAMILY_TYPE, nvls::EmulatedForm<FAMILY_TYPE>>(a);
}
