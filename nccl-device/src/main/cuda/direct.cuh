// Common code of the kernels that copy directly between the ranks' buffers: views of other ranks'
// memory, the count of kernels, barriers of blocks.
#pragma once
#include "direct_layout.h"
#include "launch.cuh"
#include "memory.cuh"
#include "reduce.cuh"
#include "wait.cuh"

namespace nccl4j {
namespace direct {

constexpr int kThreads = NCCL4J_DIRECT_THREADS;

// A kernel may begin before its predecessor in the stream has ended. Memory may be touched only after this.
__device__ __forceinline__ void begin(const nccl4jDirectArguments& a) {
  awaitPredecessor();
  admitSuccessor(a.comm);
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

// The number of this kernel among all direct kernels of the communicator. All ranks launch the same
// kernels, so the number is the same on all ranks. The device counts, since graphs launch kernels again.
// The flags that carry it are never 0 twice in a row. Each block reads a copy of its own.
__device__ __forceinline__ u32 epoch(const nccl4jDirectArguments& a) {
  return loadControl(own(a, a.epoch + 4 * blockIdx.x)) + 1;
}

// At the end, by all threads: each block increments its own copy. The first block also increments the
// copies of blocks that this kernel does not have. So no block waits for another.
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

__device__ __forceinline__ u32 loadFlagAcquire(const void* p) {
  u32 v;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}

// A barrier of the same block of all ranks, at a kernel's begin and at its end. A flag's lower half is
// twice the kernel's number, plus one at the end. The upper half is the call at the begin (callOf, never
// 0), and 0 at the end. A rank may overwrite its begin flag unseen only after it has seen all others'.
//
// A rank can be at most at the begin of the next kernel, which it cannot leave before this rank arrives.
// So flags that are one or two ahead belong to that begin, or to this kernel's end. All other flags are
// old, of any age, since a block that few kernels have keeps its flags. A flag from exactly 2^31 or
// 2^31 - 1 kernels before would pass as new.
__device__ __forceinline__ char* ownFlag(const nccl4jDirectArguments& a, int other) {
  return own(a, a.flags + 8ull * (NCCL4J_DIRECT_RANKS * blockIdx.x + other));
}

__device__ __forceinline__ char* flagAt(const nccl4jDirectArguments& a, int other) {
  return peer(a, other, a.flags + 8ull * (NCCL4J_DIRECT_RANKS * blockIdx.x + a.comm.rank));
}

// The signature above, and below a hash of the places of the buffers that must lie alike on all ranks.
// A rank computes the other ranks' addresses from its own.
__device__ __forceinline__ u32 callOf(const nccl4jDirectArguments& a) {
  u64 places = 0;
  if (a.comm.flags & ALIKE_SEND) places += (a.send + a.sendFlat - a.resources) * 0x9e3779b97f4a7c15ull;
  if (a.comm.flags & ALIKE_RECV) places += (a.recv + a.recvFlat - a.resources) * 0xc2b2ae3d27d4eb4full;
  return a.comm.signature << 16 | (u32)(places >> 48);
}

__device__ __forceinline__ bool meetsOther(const nccl4jDirectArguments& a) {
  return threadIdx.x < a.comm.nRanks && threadIdx.x != a.comm.rank;
}

// Tells the others that the kernel has begun. Earlier work of the stream needs no release: it has ended,
// and was flushed to all devices, since its memory domain may differ.
__device__ __forceinline__ void arrive(const nccl4jDirectArguments& a, u32 number) {
  if (meetsOther(a)) storeWordRelaxed(flagAt(a, threadIdx.x), (u64)callOf(a) << 32 | 2 * number);
}

__device__ __forceinline__ void awaitFlags(const nccl4jDirectArguments& a, u32 call, u32 value) {
  if (meetsOther(a)) {
    const int other = threadIdx.x;
    const char* flag = ownFlag(a, other);
    const u64 wanted = (u64)call << 32 | value;
    Patience patience(a.comm);
    for (u64 found; (found = loadWordAcquire(flag)) != wanted;) {
      const u32 ahead = (u32)found - value, theirs = (u32)(found >> 32);
      if (ahead - 1 < 2 && found != 0) break;
      auto unlike = [&] { return ahead == 0 && theirs != 0 ? (u64)call << 32 | theirs : 0; };
      if (patience.exhausted(other, blockIdx.x, 0, value, unlike)) break;
    }
  }
  __syncthreads();
}

// Returns once the same block of all ranks has begun: their buffers may be touched.
__device__ __forceinline__ void awaitBegin(const nccl4jDirectArguments& a, u32 number) {
  awaitFlags(a, callOf(a), 2 * number);
  admitWhenMet(a.comm);
}

// Tells the others that this block is done. Its threads have met at a barrier after their stores.
__device__ __forceinline__ void tellEnd(const nccl4jDirectArguments& a, u32 number) {
  if (meetsOther(a)) storeWordRelease(flagAt(a, threadIdx.x), 2 * number + 1);
}

__device__ __forceinline__ void awaitEnd(const nccl4jDirectArguments& a, u32 number) {
  awaitFlags(a, 0, 2 * number + 1);
}

// Returns once the same block of all ranks is done, and makes its stores visible.
__device__ __forceinline__ void meetAtEnd(const nccl4jDirectArguments& a, u32 number) {
  __syncthreads();
  tellEnd(a, number);
  awaitEnd(a, number);
}

// The scaling of an average.
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
