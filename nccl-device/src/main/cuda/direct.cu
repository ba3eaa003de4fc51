// The direct kernels of one type of element (FAMILY_TYPE), or those that only copy.
#include <type_traits>

#include "direct_beside.cuh"
#include "direct_group.cuh"
#include "direct_ll128.cuh"
#include "direct_scatter.cuh"
#include "direct_signal.cuh"
#include "direct_window.cuh"

using namespace nccl4j;

// Blocks that a multiprocessor must have room for; class DirectPlans knows these numbers.
#ifdef FAMILY_COPY
constexpr int kWindowBlocks = 2;
constexpr direct::Received kReceived = direct::Received::STORED;
#else
constexpr int kWindowBlocks = 1;
constexpr direct::Received kReceived = direct::Received::COMBINED;
#endif

extern "C" __global__ void __launch_bounds__(direct::kThreads, 2)
    nccl4j_direct_ll(const __grid_constant__ nccl4jDirectArguments a) {
  direct::ll<FAMILY_TYPE, kReceived>(a);
}

extern "C" __global__ void __launch_bounds__(direct::kThreads, 2)
    nccl4j_direct_ll_group(const __grid_constant__ nccl4jDirectGroupArguments a) {
  direct::llGroup<FAMILY_TYPE, kReceived>(a);
}

extern "C" __global__ void __launch_bounds__(direct::kThreads, 2)
    nccl4j_direct_ll128(const __grid_constant__ nccl4jDirectArguments a) {
  direct::ll128<FAMILY_TYPE, kReceived>(a);
}

extern "C" __global__ void __launch_bounds__(direct::kThreads, kWindowBlocks)
    nccl4j_direct_window(const __grid_constant__ nccl4jDirectArguments a) {
#ifdef FAMILY_COPY
  direct::copyWindows(a);
#else
  direct::reduceWindows<FAMILY_TYPE>(a);
#endif
}

extern "C" __global__ void __launch_bounds__(direct::kThreads, 1)
    nccl4j_direct_beside(const __grid_constant__ nccl4jBesideArguments a) {
#ifdef FAMILY_COPY
  direct::copyBeside(a);
#else
  if (a.direct.operation == DIRECT_REDUCE_SCATTER)
    direct::scatterBeside<FAMILY_TYPE>(a);
  else
    direct::reduceBeside<FAMILY_TYPE>(a);
#endif
}

#ifdef FAMILY_COPY

extern "C" __global__ void nccl4j_direct_signal(const __grid_constant__ nccl4jDirectArguments a) {
  direct::signal(a);
}

extern "C" __global__ void nccl4j_direct_wait(const __grid_constant__ nccl4jAwaitArguments a) {
  direct::await(a);
}

extern "C" __global__ void nccl4j_direct_meet(const __grid_constant__ nccl4jDirectArguments a) {
  direct::meet(a);
}

#endif
