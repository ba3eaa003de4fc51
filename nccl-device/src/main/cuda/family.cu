// One family of kernels: those of one type of element (FAMILY_TYPE), or those that only copy.
//
// LL and LL128 are for small data, where every instruction of the schedule is on the way: a kernel
// for each algorithm. In Simple the schedule runs beside the data: one kernel for all algorithms.
#include "copies.cuh"
#include "p2p.cuh"

using namespace nccl4j;

#define FLAGGED(NAME, PRIMITIVES, ALGORITHM)                        \
  extern "C" __global__ void __launch_bounds__(kLLThreads, 1)       \
      NAME(const __grid_constant__ nccl4jCollectiveArguments a) {   \
    runFlagged<ALGORITHM, PRIMITIVES<FAMILY_TYPE>>(a);              \
  }

#define FLAGGED_IN_ALL(NUMBER, KERNEL)                  \
  FLAGGED(nccl4j_ll_##KERNEL, LLPrimitives, NUMBER)     \
  FLAGGED(nccl4j_ll128_##KERNEL, LL128Primitives, NUMBER)

#ifdef FAMILY_COPY
#define FLAGGED_IN_REDUCING(NUMBER, KERNEL)
#else
#define FLAGGED_IN_REDUCING FLAGGED_IN_ALL
#endif

#define FLAGGED_IN_NONE(NUMBER, KERNEL)

#define FLAGGED_ROW(NUMBER, KERNEL, FUNCTION, PEERS, FAMILIES) FLAGGED_IN_##FAMILIES(NUMBER, KERNEL)
NCCL4J_ALGORITHMS(FLAGGED_ROW)

extern "C" __global__ void __launch_bounds__(kSimpleThreads, 1)
    nccl4j_simple(const __grid_constant__ nccl4jCollectiveArguments a) {
  runSimple<FAMILY_TYPE>(a);
}

#ifdef FAMILY_COPY

extern "C" __global__ void __launch_bounds__(kSimpleThreads, 2)
    nccl4j_p2p(const __grid_constant__ nccl4jP2pArguments a) {
  runP2p<P2pWorks::ANY>(a);
}

extern "C" __global__ void __launch_bounds__(kLLThreads, 2)
    nccl4j_p2p_flagged(const __grid_constant__ nccl4jP2pArguments a) {
  runP2p<P2pWorks::FLAGGED>(a);
}

extern "C" __global__ void __launch_bounds__(kLLThreads, 2)
    nccl4j_p2p_small(const __grid_constant__ nccl4jP2pArguments a) {
  runSmallP2p(a);
}

extern "C" __global__ void nccl4j_copies_tell(const __grid_constant__ nccl4jCopyArguments a) {
  copies::tell(a);
}

extern "C" __global__ void nccl4j_copies_await(const __grid_constant__ nccl4jCopyArguments a) {
  copies::await(a);
}

#endif
