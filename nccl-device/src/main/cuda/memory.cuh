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

// Accesses to data in slots. Flags order them, so they only need to bypass the L1 cache.
__device__ __forceinline__ Pack loadPack(const void* p) {
  Pack v;
  asm volatile("ld.volatile.global.v2.u64 {%0,%1}, [%2];" : "=l"(v.lo), "=l"(v.hi) : "l"(p));
  return v;
}

__device__ __forceinline__ void storePack(void* p, Pack v) {
  asm volatile("st.volatile.global.v2.u64 [%0], {%1,%2};" ::"l"(p), "l"(v.lo), "l"(v.hi));
}

// Accesses to data that no rank changes while they are loaded, or that a flag or barrier has published: they
// need no order.
__device__ __forceinline__ Pack loadData(const void* p) {
  Pack v;
  asm volatile("ld.global.L1::no_allocate.v2.u64 {%0,%1}, [%2];" : "=l"(v.lo), "=l"(v.hi) : "l"(p));
  return v;
}

__device__ __forceinline__ void storeData(void* p, Pack v) {
  asm volatile("st.global.v2.u64 [%0], {%1,%2};" ::"l"(p), "l"(v.lo), "l"(v.hi) : "memory");
}

// The flags of a line of LL. The first contains only the step, the second also the call. So a waiting
// thread sees if the step arrived with another call.
//
// Lines are never cleared, and flags have 32 bits. A line that was never written has no call's flags, since
// no signature is 0. An old line passes as new only if a call with the same signature wrote it exactly
// 2^32 steps before, no call as large came between, and the receiver reads it before the sender stores. A
// program that repeats a call writes the line each time.
struct LineFlags {
  u32 step, call;

  __device__ __forceinline__ LineFlags(u32 step, u32 signature)
      : step(step), call(step + (signature << 16)) {}

  __device__ __forceinline__ bool match(uint4 line) const { return line.y == step && line.w == call; }

  // If the step arrived with another call: both calls, in the form of nccl4jControl's failedStep. Else 0.
  __device__ __forceinline__ u64 unlike(uint4 line) const {
    return line.y == step && line.w != step ? (u64)(call - step) << 32 | (line.w - step) : 0;
  }
};

// A line of LL: both words of data with their flags in one store, which arrives whole.
__device__ __forceinline__ void storeLine(void* p, u64 data, LineFlags flags) {
  asm volatile("st.volatile.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(p), "r"((u32)data),
               "r"(flags.step), "r"((u32)(data >> 32)), "r"(flags.call));
}

__device__ __forceinline__ uint4 loadLine(const void* p) {
  uint4 v;
  asm volatile("ld.volatile.global.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p));
  return v;
}

// The note of a step without a slot: the call's signature above 48 bits of the step.
__device__ __forceinline__ u64 flagOf(u64 step, u32 signature) { return step + 1 + ((u64)signature << 48); }

__device__ __forceinline__ bool sameStep(u64 a, u64 b) { return ((a ^ b) & ~0ull >> 16) == 0; }

// As LineFlags::unlike.
__device__ __forceinline__ u64 unlikeFlag(u64 wanted, u64 found) {
  return sameStep(wanted, found) ? found >> 48 << 16 : 0;
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

__device__ __forceinline__ void storeWordRelease(void* p, u64 v) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
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
