// The steps of a quantised sum on a rank's own memory. A thread has the elements of 16 bytes, a unit, and the
// threads of some lanes of a warp have a block of elements. Class BlockQuantiser of the host has the same
// arithmetic: every operation is rounded by itself, so that a device gives the same bits (NaN apart) as the
// host.
#pragma once

#include "block_scale.cuh"
#include "quantise_layout.h"
#include "types.h"
#include "unaligned.cuh"

namespace nccl4j {
namespace quantise {

constexpr int kThreads = NCCL4J_QUANTISE_THREADS;
constexpr int kBlocks = 4;  // of a multiprocessor
constexpr int kWarp = 32;

constexpr float kRounder = 0x1.8p23f;  // the last place of a sum with it is 1
template <class T>
constexpr int kElements = 16 / sizeof(T);

// The codes of a unit: four in a word.
template <class T>
struct alignas(kElements<T>) Codes {
  u32 words[kElements<T> / 4];
};

// A unit of a part: the elements of a thread.
struct Unit {
  u64 part;
  u64 at;     // its first element in the part
  int count;  // its elements: fewer at the end of a part, 0 behind it
};

// The numbers of four codes.
__device__ __forceinline__ void numbersOf(const nccl4jQuantiseArguments& a, u32 word, float* to) {
  if (a.int8) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
      // The byte plus 128 as the last of 2 to the 23.
      const u32 bits = __byte_perm(word ^ 0x80808080u, 0x4b000000u, 0x7540 + i);
      to[i] = __fsub_rn(__uint_as_float(bits), 0x1p23f + 128);
    }
  } else {
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const __half2_raw both =
          __nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(word >> 16 * i), __NV_E4M3);
      const float2 numbers = __half22float2(__half2(both));
      to[2 * i] = numbers.x;
      to[2 * i + 1] = numbers.y;
    }
  }
}

template <class T>
__device__ __forceinline__ void numbersOf(const nccl4jQuantiseArguments& a, const Codes<T>& codes,
                                          float (&to)[kElements<T>]) {
#pragma unroll
  for (int w = 0; w < kElements<T> / 4; w++) numbersOf(a, codes.words[w], to + 4 * w);
}

// The codes of four values, times a factor.
__device__ __forceinline__ u32 codesOf(const nccl4jQuantiseArguments& a, const float* values, float factor) {
  u32 word = 0;
  if (a.int8) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const u32 rounded = __float_as_uint(__fadd_rn(__fmul_rn(values[i], factor), kRounder));
      word |= (rounded & 0xff) << 8 * i;
    }
  } else {
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const float2 both = {__fmul_rn(values[2 * i], factor), __fmul_rn(values[2 * i + 1], factor)};
      word |= static_cast<u32>(__nv_cvt_float2_to_fp8x2(both, __NV_SATFINITE, __NV_E4M3)) << 16 * i;
    }
  }
  return word;
}

// Makes the codes of a block's values, of which each lane has some; returns their scale: NaN for a block with an
// infinity or a NaN. All lanes of a warp, lanes of them for a block. Values that are not of the block are 0.
template <class T>
__device__ __forceinline__ float encode(const nccl4jQuantiseArguments& a, int lanes,
                                        const float (&values)[kElements<T>], Codes<T>& codes) {
  u32 most = 0;
#pragma unroll
  for (int i = 0; i < kElements<T>; i++) most = max(most, __float_as_uint(values[i]) & kMagnitude);
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2)
    if (distance < lanes) most = max(most, __shfl_xor_sync(~0u, most, distance));
  const BlockScale scale(most, a.int8 ? kMostInt8 : kMostFp8);
#pragma unroll
  for (int w = 0; w < kElements<T> / 4; w++)
    codes.words[w] = scale.finite ? codesOf(a, values + 4 * w, scale.factor) : 0;
  return scale.scale;
}

// The place of the scale of an element's block.
__device__ __forceinline__ float* scaleOf(const nccl4jQuantiseArguments& a, char* part, u64 at) {
  return reinterpret_cast<float*>(part + a.blocks * a.block) + (at >> (__ffs(a.block) - 1));
}

template <class T>
__device__ __forceinline__ Codes<T>* codesAt(char* part, u64 at) {
  return reinterpret_cast<Codes<T>*>(part + at);
}

template <class T>
__device__ __forceinline__ void storeCodes(const nccl4jQuantiseArguments& a, int lanes, const Unit& unit,
                                           char* part, const Codes<T>& codes, float scale) {
  *codesAt<T>(part, unit.at) = codes;
  if (threadIdx.x % lanes == 0) *scaleOf(a, part, unit.at) = scale;
}

// Elements of a unit at any address; 0 behind its end.
template <class X, int N>
__device__ __forceinline__ void load(const X* from, int count, float (&to)[N]) {
  union {
    Pack packs[N * sizeof(X) / 16];
    X at[N];
  };
  if (count == N) {
    loadAnywhere(packs, reinterpret_cast<const char*>(from), N * sizeof(X) / 16, loadData,
                 [](int i) { return 16 * i; });
#pragma unroll
    for (int i = 0; i < N; i++) to[i] = static_cast<float>(at[i]);
  } else {
#pragma unroll
    for (int i = 0; i < N; i++) to[i] = i < count ? static_cast<float>(from[i]) : 0;
  }
}

template <class X, int N>
__device__ __forceinline__ void store(X* to, int count, const float (&values)[N]) {
  union {
    Pack packs[N * sizeof(X) / 16];
    X at[N];
  };
#pragma unroll
  for (int i = 0; i < N; i++) at[i] = static_cast<X>(values[i]);
  if (count == N) {
#pragma unroll
    for (int i = 0; i < static_cast<int>(N * sizeof(X) / 16); i++)
      if (reinterpret_cast<u64>(to) % 16 == 0)
        storeData(reinterpret_cast<char*>(to) + 16 * i, packs[i]);
      else
        storeAnywhere(reinterpret_cast<char*>(to) + 16 * i, packs[i]);
  } else {
#pragma unroll
    for (int i = 0; i < N; i++)
      if (i < count) to[i] = at[i];
  }
}

// Calls body(units) for this thread's units of some parts, UNITS at a time, together for a warp. The lanes that
// have a block's units are neighbours.
template <class T, int UNITS, class Body>
__device__ __forceinline__ void forUnits(const nccl4jQuantiseArguments& a, u64 firstPart, u64 nParts, Body body) {
  const u64 ofPart = a.blocks * a.block / kElements<T>;
  const u64 threads = static_cast<u64>(gridDim.x) * blockDim.x;
  const u64 first = static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x;
  const u64 end = firstPart + nParts;
  u64 part = firstPart + first / ofPart, at = first % ofPart;
  for (u64 warp = first - threadIdx.x % kWarp; warp < nParts * ofPart; warp += UNITS * threads) {
    Unit units[UNITS];
#pragma unroll
    for (int i = 0; i < UNITS; i++) {
      const u64 element = at * kElements<T>, begin = part * a.part + element;
      const u64 left = element < a.part && begin < a.count ? min(a.part - element, a.count - begin) : 0;
      units[i] = {part, element, part < end ? static_cast<int>(min(left, static_cast<u64>(kElements<T>))) : 0};
      at += threads;
      while (at >= ofPart && part < end) {
        at -= ofPart;
        part++;
      }
    }
    body(units);
  }
}

// Makes all parts (recv) of elements (send), of several copies of their sum, in the order of the copies.
template <class T>
__device__ void quantise(const nccl4jQuantiseArguments& a) {
  constexpr int kUnits = 2;
  constexpr int N = kElements<T>;
  const T* send = reinterpret_cast<const T*>(a.send);
  float* residual = reinterpret_cast<float*>(a.residual);
  const int lanes = a.block / N;
  const bool inPhase = (a.send | a.part * sizeof(T)) % 16 == 0;
  forUnits<T, kUnits>(a, 0, a.nParts, [&](const Unit(&units)[kUnits]) {
    Pack packs[kUnits];
    auto from = [&](const Unit& unit) { return send + unit.part * a.part + unit.at; };
#pragma unroll
    for (int u = 0; u < kUnits; u++)
      if (inPhase && units[u].count == N) packs[u] = loadData(from(units[u]));
#pragma unroll
    for (int u = 0; u < kUnits; u++) {
      const Unit& unit = units[u];
      float values[N];
      if (inPhase && unit.count == N) {
        union {
          Pack pack;
          T at[N];
        };
        pack = packs[u];
#pragma unroll
        for (int i = 0; i < N; i++) values[i] = static_cast<float>(at[i]);
      } else {
        load(from(unit), unit.count, values);
      }
#pragma unroll 1
      for (u32 copy = 1; copy < a.copies; copy++) {
        float more[N];
        load(reinterpret_cast<const T*>(reinterpret_cast<const char*>(from(unit)) + copy * a.copyBytes), unit.count,
             more);
#pragma unroll
        for (int i = 0; i < N; i++) values[i] = __fadd_rn(values[i], more[i]);
      }
      float* errors = residual + unit.part * a.part + unit.at;
      if (residual != nullptr) {
        float old[N];
        load(errors, unit.count, old);
#pragma unroll
        for (int i = 0; i < N; i++)
          if (i < unit.count) values[i] = __fadd_rn(values[i], old[i]);
      }
      Codes<T> codes;
      const float scale = encode<T>(a, lanes, values, codes);
      if (unit.count == 0) continue;
      storeCodes(a, lanes, unit, reinterpret_cast<char*>(a.recv) + unit.part * a.partBytes, codes, scale);
      if (residual != nullptr && scale == scale) {
        float numbers[N];
        numbersOf<T>(a, codes, numbers);
#pragma unroll
        for (int i = 0; i < N; i++) numbers[i] = __fsub_rn(values[i], __fmul_rn(numbers[i], scale));
        store(errors, unit.count, numbers);
      }
    }
  });
}

// Codes of a unit, and the scale of their block.
template <class T>
struct Coded {
  Codes<T> codes;
  float scale;

  __device__ __forceinline__ void load(const nccl4jQuantiseArguments& a, char* part, const Unit& unit) {
    if (unit.count == 0) return;
    codes = *codesAt<T>(part, unit.at);
    scale = *scaleOf(a, part, unit.at);
  }

  // The values, 0 behind the unit's end.
  __device__ __forceinline__ void values(const nccl4jQuantiseArguments& a, int count,
                                         float (&to)[kElements<T>]) const {
    numbersOf<T>(a, codes, to);
#pragma unroll
    for (int i = 0; i < kElements<T>; i++) to[i] = i < count ? __fmul_rn(to[i], scale) : 0;
  }
};

// Adds all copies of this rank's part (send) in their order; makes elements or a part (recv).
template <class T>
__device__ void sum(const nccl4jQuantiseArguments& a) {
  constexpr int kUnits = 2;
  constexpr int N = kElements<T>;
  char* send = reinterpret_cast<char*>(a.send);
  float* residual = reinterpret_cast<float*>(a.residual);
  const int lanes = a.block / N;
  forUnits<T, kUnits>(a, a.index, 1, [&](const Unit(&units)[kUnits]) {
    float values[kUnits][N];
#pragma unroll 1
    for (u32 copy = 0; copy < a.nParts; copy++) {
      Coded<T> coded[kUnits];
#pragma unroll
      for (int u = 0; u < kUnits; u++) coded[u].load(a, send + copy * a.partBytes, units[u]);
#pragma unroll
      for (int u = 0; u < kUnits; u++) {
        float more[N];
        coded[u].values(a, units[u].count, more);
#pragma unroll
        for (int i = 0; i < N; i++)
          values[u][i] = copy == 0 ? more[i] : __fadd_rn(values[u][i], more[i]);
      }
    }
#pragma unroll
    for (int u = 0; u < kUnits; u++) {
      const Unit& unit = units[u];
      if (a.divisor > 1) {
#pragma unroll
        for (int i = 0; i < N; i++) values[u][i] = __fdiv_rn(values[u][i], static_cast<float>(a.divisor));
      }
      if (!a.quantises) {
        if (unit.count > 0) store(reinterpret_cast<T*>(a.recv) + unit.at, unit.count, values[u]);
        continue;
      }
      Codes<T> codes;
      const float scale = encode<T>(a, lanes, values[u], codes);
      if (unit.count == 0) continue;
      storeCodes(a, lanes, unit, reinterpret_cast<char*>(a.recv), codes, scale);
      if (residual != nullptr && scale == scale) {
        const float weight = static_cast<float>(a.divisor);
        float* errors = residual + a.index * a.part + unit.at;
        float numbers[N], old[N];
        numbersOf<T>(a, codes, numbers);
        load(errors, unit.count, old);
#pragma unroll
        for (int i = 0; i < N; i++) {
          const float error = __fsub_rn(values[u][i], __fmul_rn(numbers[i], scale));
          old[i] = __fadd_rn(old[i], __fmul_rn(weight, error));
        }
        store(errors, unit.count, old);
      }
    }
  });
}

// Makes elements (recv) of all parts (send).
template <class T>
__device__ void dequantise(const nccl4jQuantiseArguments& a) {
  constexpr int kUnits = 4;
  char* send = reinterpret_cast<char*>(a.send);
  forUnits<T, kUnits>(a, 0, a.nParts, [&](const Unit(&units)[kUnits]) {
    Coded<T> coded[kUnits];
#pragma unroll
    for (int u = 0; u < kUnits; u++) coded[u].load(a, send + units[u].part * a.partBytes, units[u]);
#pragma unroll
    for (int u = 0; u < kUnits; u++) {
      float values[kElements<T>];
      if (units[u].count == 0) continue;
      coded[u].values(a, units[u].count, values);
      store(reinterpret_cast<T*>(a.recv) + units[u].part * a.part + units[u].at, units[u].count, values);
    }
  });
}

}  // namespace quantise
}  // namespace nccl4j
