// One family of kernels: those of one type of element (FAMILY_TYPE), or those that only copy.
#include "p2p.cuh"

using namespace nccl4j;

extern "C" __global__ void __launch_bounds__(kLLThreads, 1)
    nccl4j_ll(const __grid_constant__ nccl4jCollectiveArguments a) {
  runFlagged<LLPrimitives<FAMILY_TYPE>>(a);
}

extern "C" __global__ void __launch_bounds__(kLLThreads, 1)
    nccl4j_ll128(const __grid_constant__ nccl4jCollectiveArguments a) {
  runFlagged<LL128Primitives<FAMILY_TYPE>>(a);
}

extern "C" __global__ void __launch_bounds__(kSimpleThreads, 1)
    nccl4j_simple(const __grid_constant__ nccl4jCollectiveArguments a) {
  runSimple<FAMILY_TYPE>(a);
}

#ifdef FAMILY_COPY
extern "C" __global__ void __launch_bounds__(kSimpleThreads, 1)
    nccl4j_p2p(const __grid_constant__ nccl4jP2pArguments a) {
  runP2p(a);
}
#endif
