// Loads and stores by their memory order. Every word that another device or the host also touches
// is accessed through these.
#pragma once
#include <cstdint>

namespace nccl4j {

using u32 = uint32_t;
using u64 = unsigned long long;

struct Pack {  // what one thread moves at once
  u64 lo, hi;
};

// Data in slots: ordered by the flags around them, so only the cache at hand must be passed by.
__device__ __forceinline__ Pack loadPack(const void* p) {
  Pack v;
  asm volatile("ld.volatile.global.v2.u64 {%0,%1}, [%2];" : "=l"(v.lo), "=l"(v.hi) : "l"(p));
  return v;
}

__device__ __forceinline__ void storePack(void* p, Pack v) {
  asm volatile("st.volatile.global.v2.u64 [%0], {%1,%2};" ::"l"(p), "l"(v.lo), "l"(v.hi));
}

// A line of LL: both words of data with their flags in one store, which arrives whole.
__device__ __forceinline__ void storeLine(void* p, u64 data, u32 flag) {
  asm volatile("st.volatile.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(p), "r"((u32)data),
               "r"(flag), "r"((u32)(data >> 32)), "r"(flag));
}

__device__ __forceinline__ uint4 loadLine(const void* p) {
  uint4 v;
  asm volatile("ld.volatile.global.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p));
  return v;
}

// A tail or head: pairs with storeWordRelaxed after fenceSystem at the other end.
__device__ __forceinline__ u64 loadWordAcquire(const void* p) {
  u64 v;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
  return v;
}

__device__ __forceinline__ u64 loadWordRelaxed(const void* p) {
  u64 v;
  asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
  return v;
}

__device__ __forceinline__ void storeWordRelaxed(void* p, u64 v) {
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}

// Everything that this block's threads did before a barrier comes before what follows, for all.
__device__ __forceinline__ void fenceSystem() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }

__device__ __forceinline__ u32 loadControl(const void* p) {
  u32 v;
  asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}

__device__ __forceinline__ void storeControl(void* p, u32 v) {
  asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

__device__ __forceinline__ u64 nanoseconds() {
  u64 t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}

// Named barriers among part of a block's warps.
__device__ __forceinline__ void barrierSync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

__device__ __forceinline__ void barrierArrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

}  // namespace nccl4j
