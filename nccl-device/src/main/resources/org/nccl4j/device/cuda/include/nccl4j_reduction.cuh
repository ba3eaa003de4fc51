// Reductions by a function of yours on GPUs. Unpack this header with ./nccl device-headers DIR, and write
//   #include "nccl4j_reduction.cuh"
//   struct MaxAbs {
//     __device__ float operator()(float a, float b) const { return fabsf(a) < fabsf(b) ? b : a; }
//   };
//   NCCL4J_REDUCTION(MaxAbs, float)
// in a file of its own. Compile it with nvcc -I DIR -fatbin (or -cubin, or -ptx) and pass the file's bytes to
// CudaFunctor.ofImage. CudaFunctor.ofSource does the same through NVRTC, without the first and the last line. The
// header includes nothing, since NVRTC has no other headers at hand.
#ifndef NCCL4J_REDUCTION_CUH
#define NCCL4J_REDUCTION_CUH

// The kernel's arguments, which Java fills (class ReductionArguments). C, so that a test without nvcc can check it.
typedef struct {
  unsigned long long comm[6];
  unsigned long long send;    // the first copy of the elements
  unsigned long long recv;    // the result
  unsigned long long stride;  // bytes from a copy to the next
  unsigned long long count;   // elements of a copy
  unsigned long long counted; // 0; or the address of a number, of which a copy has values times as many elements. Then
                              // copies lie one behind the other
  unsigned int copies;        // at least 1
  unsigned int wide;          // 1: that number is a long long; 0: an int
  unsigned int values;
  unsigned int pad;
} nccl4jReductionArguments;

#ifdef __CUDACC__

namespace nccl4j_reduction {

typedef unsigned long long u64;

constexpr int kThreads = 256;

// ---- Elements ----

// Elements of DataType.FLOAT16, BFLOAT16, FLOAT8_E4M3 and FLOAT8_E5M2 in memory. The function combines them as
// float, and only the result is rounded, once.
struct half {
  unsigned short bits;
};
struct bfloat16 {
  unsigned short bits;
};
struct f8e4m3 {
  unsigned char bits;
};
struct f8e5m2 {
  unsigned char bits;
};

// The elements of each DataType, by its label.
typedef signed char element_int8;
typedef unsigned char element_uint8;
typedef int element_int32;
typedef unsigned int element_uint32;
typedef long long element_int64;
typedef unsigned long long element_uint64;
typedef half element_half;
typedef float element_float;
typedef double element_double;
typedef bfloat16 element_bfloat16;
typedef f8e4m3 element_f8e4m3;
typedef f8e5m2 element_f8e5m2;

// The type that the function takes.
template <class T>
struct Element {
  typedef T Wide;
  static __device__ __forceinline__ const T& widen(const T& a) { return a; }
  static __device__ __forceinline__ const T& narrow(const T& a) { return a; }
};

__device__ __forceinline__ float ofHalf(unsigned short bits) {
  float a;
  asm("cvt.f32.f16 %0, %1;" : "=f"(a) : "h"(bits));
  return a;
}

template <>
struct Element<half> {
  typedef float Wide;
  static __device__ __forceinline__ float widen(half a) { return ofHalf(a.bits); }
  static __device__ __forceinline__ half narrow(float a) {
    half to;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to.bits) : "f"(a));
    return to;
  }
};

template <>
struct Element<bfloat16> {
  typedef float Wide;
  static __device__ __forceinline__ float widen(bfloat16 a) {
    return __uint_as_float(static_cast<unsigned int>(a.bits) << 16);
  }
  static __device__ __forceinline__ bfloat16 narrow(float a) {
    bfloat16 to;
#if __CUDA_ARCH__ >= 800
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(to.bits) : "f"(a));
#else
    const unsigned int bits = __float_as_uint(a);  // to nearest, ties to even
    to.bits = a != a ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
#endif
    return to;
  }
};

// The conversions are instructions from compute capability 8.9 on. Java refuses these types on older GPUs.
#if __CUDA_ARCH__ >= 890
#define NCCL4J_REDUCTION_FLOAT8(TYPE, PTX)                                               \
  template <>                                                                            \
  struct Element<TYPE> {                                                                 \
    typedef float Wide;                                                                  \
    static __device__ __forceinline__ float widen(TYPE a) {                              \
      unsigned int both;                                                                 \
      asm("cvt.rn.f16x2." PTX "x2 %0, %1;"                                               \
          : "=r"(both)                                                                   \
          : "h"(static_cast<unsigned short>(a.bits)));                                   \
      return ofHalf(static_cast<unsigned short>(both));                                  \
    }                                                                                    \
    static __device__ __forceinline__ TYPE narrow(float a) {                             \
      unsigned short both;                                                               \
      asm("cvt.rn.satfinite." PTX "x2.f32 %0, %1, %2;" : "=h"(both) : "f"(0.0f), "f"(a)); \
      return {static_cast<unsigned char>(both)};                                         \
    }                                                                                    \
  };
NCCL4J_REDUCTION_FLOAT8(f8e4m3, "e4m3")
NCCL4J_REDUCTION_FLOAT8(f8e5m2, "e5m2")
#undef NCCL4J_REDUCTION_FLOAT8
#endif

// The element that a functor takes: argument(&FUNCTOR::operator()), of which only the type is used.
template <class T>
struct Plain {
  typedef T Type;
};
template <class T>
struct Plain<const T> : Plain<T> {};
template <class T>
struct Plain<T&> : Plain<T> {};
template <class T>
struct Plain<T&&> : Plain<T> {};
template <class R, class F, class A, class B>
__device__ typename Plain<A>::Type argument(R (F::*)(A, B) const);
template <class R, class F, class A, class B>
__device__ typename Plain<A>::Type argument(R (F::*)(A, B));

// ---- The reduction of copies, in their order; of one copy the bits ----

struct alignas(16) Pack {
  unsigned int words[4];
};

__device__ __forceinline__ u64 firstOfThread() {
  return static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ __forceinline__ u64 threadsOfGrid() { return static_cast<u64>(gridDim.x) * blockDim.x; }

// The copies of a launch.
struct Copies {
  u64 count, stride;
};

template <class T>
__device__ __forceinline__ Copies copiesOf(const nccl4jReductionArguments& a) {
  if (a.counted == 0) return {a.count, a.stride};
  const u64 number = a.wide ? *reinterpret_cast<const u64*>(a.counted)
                            : static_cast<u64>(*reinterpret_cast<const unsigned int*>(a.counted));
  return {number * a.values, number * a.values * sizeof(T)};
}

// Elements of 16 bytes at a time, which lie at multiples of 16 bytes.
template <class F, class T>
__device__ __forceinline__ void reducePacks(const nccl4jReductionArguments& a, u64 stride, u64 packs) {
  constexpr int kElements = 16 / sizeof(T);
  union Unit {
    Pack pack;
    T at[kElements];
  };
  F function;
  for (u64 p = firstOfThread(); p < packs; p += threadsOfGrid()) {
    const char* from = reinterpret_cast<const char*>(a.send) + 16 * p;
    typename Element<T>::Wide result[kElements];
    Unit unit;
    unit.pack = *reinterpret_cast<const Pack*>(from);
    if (a.copies == 1) {
      reinterpret_cast<Pack*>(a.recv)[p] = unit.pack;
      continue;
    }
#pragma unroll
    for (int i = 0; i < kElements; i++) result[i] = Element<T>::widen(unit.at[i]);
#pragma unroll 4
    for (unsigned int copy = 1; copy < a.copies; copy++) {
      from += stride;
      unit.pack = *reinterpret_cast<const Pack*>(from);
#pragma unroll
      for (int i = 0; i < kElements; i++) result[i] = function(result[i], Element<T>::widen(unit.at[i]));
    }
#pragma unroll
    for (int i = 0; i < kElements; i++) unit.at[i] = Element<T>::narrow(result[i]);
    reinterpret_cast<Pack*>(a.recv)[p] = unit.pack;
  }
}

// Elements from a number on, one at a time.
template <class F, class T>
__device__ __forceinline__ void reduceElements(const nccl4jReductionArguments& a, Copies copies, u64 first) {
  F function;
  for (u64 i = first + firstOfThread(); i < copies.count; i += threadsOfGrid()) {
    const char* from = reinterpret_cast<const char*>(a.send) + i * sizeof(T);
    if (a.copies == 1) {
      reinterpret_cast<T*>(a.recv)[i] = *reinterpret_cast<const T*>(from);
      continue;
    }
    typename Element<T>::Wide result = Element<T>::widen(*reinterpret_cast<const T*>(from));
#pragma unroll 4
    for (unsigned int copy = 1; copy < a.copies; copy++) {
      from += copies.stride;
      result = function(result, Element<T>::widen(*reinterpret_cast<const T*>(from)));
    }
    reinterpret_cast<T*>(a.recv)[i] = Element<T>::narrow(result);
  }
}

template <class F, class T>
__device__ __forceinline__ void reduce(const nccl4jReductionArguments& a) {
  const Copies copies = copiesOf<T>(a);
  u64 done = 0;
  if constexpr (16 % sizeof(T) == 0 && __is_trivial(T)) {
    if ((a.send | a.recv | copies.stride) % 16 == 0) {
      const u64 packs = copies.count / (16 / sizeof(T));
      reducePacks<F, T>(a, copies.stride, packs);
      done = packs * (16 / sizeof(T));
    }
  }
  reduceElements<F, T>(a, copies, done);
}

}  // namespace nccl4j_reduction

// The kernel of a functor for elements of a type, the last arguments. The number in its name changes with the
// arguments' layout. The size of the other symbol is the element's.
#define NCCL4J_REDUCTION(FUNCTOR, ...)                                                             \
  extern "C" {                                                                                     \
  __device__ char nccl4j_reduction_element[sizeof(__VA_ARGS__)];                                   \
  __global__ void __launch_bounds__(nccl4j_reduction::kThreads)                                    \
      nccl4j_reduction_2(const __grid_constant__ nccl4jReductionArguments a) {                     \
    nccl4j_reduction::reduce<FUNCTOR, __VA_ARGS__>(a);                                             \
  }                                                                                                \
  }

#endif  // __CUDACC__
#endif
