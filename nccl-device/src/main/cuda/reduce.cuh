// The operators on eight bytes of elements at a time. The operator is chosen at run time, once for a
// thread's whole share of a step. All threads take the same branch, and a family has one kernel for each
// protocol, not one for each protocol and operator.
#pragma once
#include "layout.h"
#include "mean.cuh"
#include "memory.cuh"
#include "types.h"

namespace nccl4j {

__device__ __forceinline__ float greatest(float a, float b) { return fmaxf(a, b); }
__device__ __forceinline__ double greatest(double a, double b) { return fmax(a, b); }
template <class T>
__device__ __forceinline__ T greatest(T a, T b) {
  return a < b ? b : a;
}
__device__ __forceinline__ float least(float a, float b) { return fminf(a, b); }
__device__ __forceinline__ double least(double a, double b) { return fmin(a, b); }
template <class T>
__device__ __forceinline__ T least(T a, T b) {
  return b < a ? b : a;
}

template <class T>
union Elements {
  static constexpr int count = 8 / sizeof(T);
  u64 word;
  T at[count];
  __device__ Elements() {}
};

template <class T, int OP>
__device__ __forceinline__ u64 combineElements(u64 x, u64 y) {
  using A = Arithmetic<T>;
  Elements<T> a, b;
  a.word = x;
  b.word = y;
#pragma unroll
  for (int i = 0; i < Elements<T>::count; i++) {
    auto p = A::widen(a.at[i]);
    auto q = A::widen(b.at[i]);
    a.at[i] = A::narrow(OP == SUM ? p + q : OP == PROD ? p * q : OP == MAX ? greatest(p, q) : least(p, q));
  }
  return a.word;
}

// a[i] = a[i] op b[i]
template <class T, int N>
__device__ __forceinline__ void combine(u32 op, u64 (&a)[N], const u64 (&b)[N]) {
  switch (op) {
    case PROD:
#pragma unroll
      for (int i = 0; i < N; i++) a[i] = combineElements<T, PROD>(a[i], b[i]);
      break;
    case MAX:
#pragma unroll
      for (int i = 0; i < N; i++) a[i] = combineElements<T, MAX>(a[i], b[i]);
      break;
    case MIN:
#pragma unroll
      for (int i = 0; i < N; i++) a[i] = combineElements<T, MIN>(a[i], b[i]);
      break;
    default:
#pragma unroll
      for (int i = 0; i < N; i++) a[i] = combineElements<T, SUM>(a[i], b[i]);
  }
}

// For the mean of floating-point types: an element of one rank, before it is added.
template <class T>
__device__ __noinline__ u64 scaleElements(u64 x, int nRanks) {
  using A = Arithmetic<T>;
  Elements<T> a;
  a.word = x;
  if constexpr (A::floating) {
    typename A::Wide factor = typename A::Wide(1) / typename A::Wide(nRanks);
#pragma unroll
    for (int i = 0; i < Elements<T>::count; i++) a.at[i] = A::narrow(A::widen(a.at[i]) * factor);
  }
  return a.word;
}

// The factor of a rank's elements before they are added.
template <class T>
using Factor = typename Arithmetic<T>::Wide;

// Not inlined: plain sums have no more of it than a branch, and it stays apart from the addition that
// follows. Both as one operation would round otherwise than the host device does.
template <class T>
__device__ __noinline__ u64 multiplyElements(u64 x, Factor<T> factor) {
  using A = Arithmetic<T>;
  Elements<T> a;
  a.word = x;
#pragma unroll
  for (int i = 0; i < Elements<T>::count; i++) a.at[i] = A::narrow(A::widen(a.at[i]) * factor);
  return a.word;
}

// For the mean of integers: the sum, at its end.
template <class T>
__device__ __noinline__ u64 divideElements(u64 x, int nRanks) {
  Elements<T> a;
  a.word = x;
  if constexpr (!Arithmetic<T>::floating) {
#pragma unroll 1
    for (int i = 0; i < Elements<T>::count; i++) a.at[i] = meanOf(a.at[i], nRanks);
  }
  return a.word;
}

// Scaling of data in transit, besides the operator.
struct Touch {
  bool scale;   // multiply when read, by 1 / ranks or by a factor
  bool divide;  // divide by ranks when the result is written
};

template <class T>
__device__ __forceinline__ Touch touchFor(u32 op) {
  return {op == AVG && Arithmetic<T>::floating, op == AVG && !Arithmetic<T>::floating};
}

// Of kernels that have a factor: elements of any type are scaled for a pre-multiplied sum.
template <class T>
__device__ __forceinline__ Touch touchByFactor(u32 op) {
  Touch touch = touchFor<T>(op);
  touch.scale |= op == PREMUL;
  return touch;
}

// Elements in memory by size alone, so that they can be volatile.
template <int BYTES>
struct Raw;
template <>
struct Raw<1> {
  using Type = uint8_t;
};
template <>
struct Raw<2> {
  using Type = uint16_t;
};
template <>
struct Raw<4> {
  using Type = uint32_t;
};
template <>
struct Raw<8> {
  using Type = u64;
};

// Up to eight bytes of a buffer that is aligned to its elements only; the rest is 0.
template <class T>
__device__ __forceinline__ u64 loadElements(const char* p, u32 bytes) {
  if (bytes >= 8 && ((u64)p & 7) == 0) return *(const volatile u64*)p;
  using R = typename Raw<sizeof(T)>::Type;
  u64 x = 0;
#pragma unroll
  for (int i = 0; i < (int)(8 / sizeof(T)); i++) {
    if ((i + 1) * sizeof(T) <= bytes) x |= (u64)((const volatile R*)p)[i] << (8 * sizeof(T) * i % 64);
  }
  return x;
}

template <class T>
__device__ __forceinline__ void storeElements(char* p, u64 x, u32 bytes) {
  if (bytes >= 8 && ((u64)p & 7) == 0) {
    *(u64*)p = x;
    return;
  }
  using R = typename Raw<sizeof(T)>::Type;
#pragma unroll
  for (int i = 0; i < (int)(8 / sizeof(T)); i++) {
    if ((i + 1) * sizeof(T) <= bytes) ((R*)p)[i] = (R)(x >> (8 * sizeof(T) * i % 64));
  }
}

// The factor of a mean or a pre-multiplied sum. Called by one thread, once what came before the kernel
// has ended: a scalar in memory counts as it is then.
template <class T>
__device__ __forceinline__ Factor<T> factorOf(const nccl4jCollectiveArguments& a) {
  if constexpr (Arithmetic<T>::floating)
    if (a.op != PREMUL) return Factor<T>(1) / Factor<T>(a.comm.nRanks);
  Elements<T> scalar;
  scalar.word = a.scalarAddress ? loadElements<uint8_t>((const char*)a.scalarAddress, sizeof(T)) : a.scalar;
  return Arithmetic<T>::widen(scalar.at[0]);
}

}  // namespace nccl4j
