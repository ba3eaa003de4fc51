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

// Types that are combined in float32 and rounded once, whatever the number of operands.
template <class T>
constexpr bool kWidens = Arithmetic<T>::floating && sizeof(T) < sizeof(float);

// The scaling of an operand of a type that widens, when an accumulator takes it.
struct Inside {
  float factor = 1;
  bool rounds = false;  // the product is rounded to the type
};

// N words of elements while operands are combined, in the order of the calls. Types that widen are held and
// scaled in float32. Other types are held as they are, and multiplyElements scales them before.
template <class T, int N, bool WIDE = kWidens<T>>
class Accumulator {
 public:
  __device__ __forceinline__ void set(const u64 (&x)[N], Inside) {
#pragma unroll
    for (int i = 0; i < N; i++) sum_[i] = x[i];
  }

  __device__ __forceinline__ void add(u32 op, const u64 (&x)[N], Inside) {
    combine<T>(op, sum_, x);
  }

  __device__ __forceinline__ void result(u64 (&x)[N]) const {
#pragma unroll
    for (int i = 0; i < N; i++) x[i] = sum_[i];
  }

 private:
  u64 sum_[N];
};

template <class T, int N>
class Accumulator<T, N, true> {
 public:
  __device__ __forceinline__ void set(const u64 (&x)[N], Inside inside) {
    each(x, inside, [](float, float b) { return b; });
  }

  __device__ __forceinline__ void add(u32 op, const u64 (&x)[N], Inside inside) {
    switch (op) {
      case PROD:
        each(x, inside, [](float a, float b) { return __fmul_rn(a, b); });
        break;
      case MAX:
        each(x, inside, [](float a, float b) { return greatest(a, b); });
        break;
      case MIN:
        each(x, inside, [](float a, float b) { return least(a, b); });
        break;
      default:
        each(x, inside, [](float a, float b) { return __fadd_rn(a, b); });
    }
  }

  __device__ __forceinline__ void result(u64 (&x)[N]) const {
#pragma unroll
    for (int i = 0; i < N; i++) {
      Elements<T> a;
#pragma unroll
      for (int j = 0; j < kEach; j++) a.at[j] = Arithmetic<T>::narrow(sum_[i * kEach + j]);
      x[i] = a.word;
    }
  }

 private:
  static constexpr int kEach = Elements<T>::count;

  // Product and sum are rounded apart, as on the host device.
  template <class F>
  __device__ __forceinline__ void each(const u64 (&x)[N], Inside inside, F f) {
#pragma unroll
    for (int i = 0; i < N; i++) {
      Elements<T> b;
      b.word = x[i];
#pragma unroll
      for (int j = 0; j < kEach; j++) {
        float& a = sum_[i * kEach + j];
        float scaled = __fmul_rn(Arithmetic<T>::widen(b.at[j]), inside.factor);
        if (inside.rounds) scaled = Arithmetic<T>::widen(Arithmetic<T>::narrow(scaled));
        a = f(a, scaled);
      }
    }
  }

  float sum_[N * kEach];
};

// An accumulator for operands whose number is known afterwards. One alone stays as it is.
template <class T, int N, bool COMBINES, bool WIDE = COMBINES && kWidens<T>>
class Operands {
 public:
  __device__ __forceinline__ void take(u32 op, const u64 (&x)[N], Inside) {
    if (COMBINES && have_)
      combine<T>(op, sum_, x);
    else
#pragma unroll
      for (int i = 0; i < N; i++) sum_[i] = x[i];
    have_ = true;
  }

  __device__ __forceinline__ void result(u64 (&x)[N]) const {
#pragma unroll
    for (int i = 0; i < N; i++) x[i] = sum_[i];
  }

 private:
  u64 sum_[N];
  bool have_ = false;
};

template <class T, int N>
class Operands<T, N, true, true> {
 public:
  __device__ __forceinline__ void take(u32 op, const u64 (&x)[N], Inside inside) {
    if (have_ == 0) {
      sum_.set(x, inside);
#pragma unroll
      for (int i = 0; i < N; i++) only_[i] = x[i];
    } else {
      sum_.add(op, x, inside);
    }
    have_++;
  }

  __device__ __forceinline__ void result(u64 (&x)[N]) const {
    if (have_ > 1) {
      sum_.result(x);
      return;
    }
#pragma unroll
    for (int i = 0; i < N; i++) x[i] = only_[i];
  }

 private:
  Accumulator<T, N> sum_;
  u64 only_[N];
  int have_ = 0;
};

// The scaling of an operand, if it is scaled. The products of a pre-multiplied sum are rounded on all ranks,
// since those of other ranks travel in the type.
template <class T>
__device__ __forceinline__ Inside insideBy(u32 op, const Factor<T>& factor, bool scales) {
  if constexpr (kWidens<T>)
    if (scales) return {factor, op == PREMUL};
  return {};
}

// The scaling of all operands of a mean.
template <class T>
__device__ __forceinline__ Inside insideMean(u32 op, int nRanks) {
  if (kWidens<T> && op == AVG) return {1.0f / (float)nRanks, false};
  return {};
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
