// What the kernels that go straight between the ranks' buffers have in common: views of other ranks'
// memory, the count of kernels, barriers of blocks.
#pragma once
#include "direct_layout.h"
#include "memory.cuh"
#include "reduce.cuh"
#include "wait.cuh"

namespace nccl4j {
namespace direct {

constexpr int kThreads = 512;

// Kernels of a stream may begin before the one before has ended; nothing is touched before this.
__device__ __forceinline__ void begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

__device__ __forceinline__ char* own(const nccl4jDirectArguments& a, u64 offset) {
  return (char*)(a.resources + (u64)a.comm.rank * a.stride + offset);
}

__device__ __forceinline__ char* peer(const nccl4jDirectArguments& a, int rank, u64 offset) {
  return (char*)(a.resources + (u64)rank * a.stride + offset);
}

__device__ __forceinline__ char* sendOf(const nccl4jDirectArguments& a, int rank) {
  return (char*)(a.send + a.sendFlat + (u64)rank * a.stride);
}

__device__ __forceinline__ char* recvOf(const nccl4jDirectArguments& a, int rank) {
  return (char*)(a.recv + a.recvFlat + (u64)rank * a.stride);
}

// The number of this kernel among all direct ones of the communicator: the same on all ranks, since
// all launch the same; counted on the device, since graphs launch kernels again. Never 0 twice in a
// row of the flags that carry it. Each block reads a copy of its own.
__device__ __forceinline__ u32 epoch(const nccl4jDirectArguments& a) {
  return loadControl(own(a, a.epoch + 4 * blockIdx.x)) + 1;
}

// At the end, by all threads: each block counts in its own copy, the first also in those of blocks that
// this kernel does not have. So no block waits for another.
__device__ __forceinline__ void finish(const nccl4jDirectArguments& a, u32 epoch) {
  __syncthreads();
  u32* count = (u32*)own(a, a.epoch);
  if (threadIdx.x == 0) count[blockIdx.x] = epoch;
  if (blockIdx.x != 0) return;
  for (u32 i = gridDim.x + threadIdx.x; i < NCCL4J_DIRECT_BLOCKS; i += blockDim.x) count[i] = epoch;
}

__device__ __forceinline__ void storeFlagRelease(void* p, u32 v) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

__device__ __forceinline__ void storeWordRelease(void* p, u64 v) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}

__device__ __forceinline__ u32 loadFlagAcquire(const void* p) {
  u32 v;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}

// The same block of all ranks meets, at a kernel's begin and at its end. A flag is twice the kernel's
// number, and one more at its end.
__device__ __forceinline__ u64 flagRow(const nccl4jDirectArguments& a) {
  return a.flags + 4ull * NCCL4J_DIRECT_RANKS * blockIdx.x;
}

__device__ __forceinline__ bool meetsOther(const nccl4jDirectArguments& a) {
  return threadIdx.x < a.comm.nRanks && threadIdx.x != a.comm.rank;
}

// Tells the others that the kernel has begun. What came before it in the stream needs no release: it
// has ended, and was flushed to all devices, since its memory domain may be another.
__device__ __forceinline__ void arrive(const nccl4jDirectArguments& a, u32 number) {
  if (meetsOther(a))
    storeControl(peer(a, threadIdx.x, flagRow(a) + 4 * a.comm.rank), 2 * number);
}

__device__ __forceinline__ void awaitFlags(const nccl4jDirectArguments& a, u32 value) {
  if (meetsOther(a)) {
    const int other = threadIdx.x;
    char* flag = own(a, flagRow(a) + 4 * other);
    Patience patience(a.comm);
    while ((int)(loadFlagAcquire(flag) - value) < 0)
      if (patience.exhausted(other, blockIdx.x, 0, value)) break;
  }
  __syncthreads();
}

// Returns once the same block of all ranks has begun: their buffers may be touched.
__device__ __forceinline__ void awaitBegin(const nccl4jDirectArguments& a, u32 number) {
  awaitFlags(a, 2 * number);
}

// Returns once the same block of all ranks is done, with what it wrote.
__device__ __forceinline__ void meetAtEnd(const nccl4jDirectArguments& a, u32 number) {
  __syncthreads();
  if (meetsOther(a))
    storeFlagRelease(peer(a, threadIdx.x, flagRow(a) + 4 * a.comm.rank), 2 * number + 1);
  awaitFlags(a, 2 * number + 1);
}

// Peers' data between two barriers: nobody changes them, so they need no order of their own.
__device__ __forceinline__ Pack loadData(const void* p) {
  Pack v;
  asm volatile("ld.global.L1::no_allocate.v2.u64 {%0,%1}, [%2];" : "=l"(v.lo), "=l"(v.hi) : "l"(p));
  return v;
}

__device__ __forceinline__ void storeData(void* p, Pack v) {
  asm volatile("st.global.v2.u64 [%0], {%1,%2};" ::"l"(p), "l"(v.lo), "l"(v.hi) : "memory");
}

// a = a op b, with what an average needs.
template <class T>
__device__ __forceinline__ void add(u32 op, Pack& a, Pack b) {
  u64 x[2] = {a.lo, a.hi}, y[2] = {b.lo, b.hi};
  combine<T>(op, x, y);
  a.lo = x[0];
  a.hi = x[1];
}

template <class T>
__device__ __forceinline__ Pack scaled(Pack a, int nRanks) {
  return {scaleElements<T>(a.lo, nRanks), scaleElements<T>(a.hi, nRanks)};
}

template <class T>
__device__ __forceinline__ Pack divided(Pack a, int nRanks) {
  return {divideElements<T>(a.lo, nRanks), divideElements<T>(a.hi, nRanks)};
}

}  // namespace direct
}  // namespace nccl4j
