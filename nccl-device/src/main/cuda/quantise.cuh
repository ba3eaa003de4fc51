// The steps of a quantised sum on a rank's own memory, a warp for each block of elements. Class
// BlockQuantiser of the host has the same arithmetic: every operation is rounded by itself, so that a device
// gives the same bits (NaN apart) as the host.
#pragma once

#include "quantise_layout.h"
#include "types.h"

namespace nccl4j {
namespace quantise {

constexpr int kThreads = 256;
constexpr int kWarp = 32;
constexpr int kMostOfLane = 4;  // 128 elements of a block

constexpr float kMostFp8 = 448;
constexpr float kMostInt8 = 127;
constexpr float kLeast = 0x1p-100f;
constexpr uint32_t kMagnitude = 0x7fffffffu;
constexpr uint32_t kInfinity = 0x7f800000u;
constexpr uint32_t kNaN = 0x7fc00000u;

// A lane's elements of a block: lane, lane + 32 and so on, up to the block's end.
struct Lane {
  float values[kMostOfLane];
  uint8_t codes[kMostOfLane];
};

__device__ __forceinline__ float number(const nccl4jQuantiseArguments& a, uint8_t code) {
  return a.int8 ? static_cast<float>(static_cast<int8_t>(code))
                : __half2float(__half(__nv_cvt_fp8_to_halfraw(code, __NV_E4M3)));
}

__device__ __forceinline__ uint8_t code(const nccl4jQuantiseArguments& a, float scaled) {
  return a.int8 ? static_cast<uint8_t>(static_cast<int8_t>(__float2int_rn(scaled)))
                : __nv_cvt_float_to_fp8(scaled, __NV_SATFINITE, __NV_E4M3);
}

// Makes the codes of a block's values; returns their scale: NaN for a block with an infinity or a NaN.
__device__ __forceinline__ float encode(const nccl4jQuantiseArguments& a, Lane& l, int lane, int count) {
  uint32_t most = 0;
#pragma unroll
  for (int k = 0; k < kMostOfLane; k++) {
    if (lane + k * kWarp < count) {
      most = max(most, __float_as_uint(l.values[k]) & kMagnitude);
    }
  }
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    most = max(most, __shfl_xor_sync(~0u, most, distance));
  }
  const bool finite = most < kInfinity;
  const float top = a.int8 ? kMostInt8 : kMostFp8;
  const float greatest = most == 0 ? top : fmaxf(__uint_as_float(most), kLeast);
  const float factor = __fdiv_rn(top, greatest);
#pragma unroll
  for (int k = 0; k < kMostOfLane; k++) {
    if (lane + k * kWarp < count) {
      l.codes[k] = finite ? code(a, __fmul_rn(l.values[k], factor)) : 0;
    }
  }
  const float scale = __fdiv_rn(greatest, top);
  const bool fits = (__float_as_uint(__fmul_rn(scale, top)) & kMagnitude) < kInfinity;
  return !finite ? __uint_as_float(kNaN) : fits ? scale : __uint_as_float(__float_as_uint(scale) - 1);
}

__device__ __forceinline__ float* scaleOf(const nccl4jQuantiseArguments& a, uint8_t* part, uint64_t block) {
  return reinterpret_cast<float*>(part + a.blocks * a.block) + block;
}

__device__ __forceinline__ void storeBlock(const nccl4jQuantiseArguments& a, const Lane& l, float scale,
                                           uint8_t* part, uint64_t block, int lane, int count) {
#pragma unroll
  for (int k = 0; k < kMostOfLane; k++) {
    if (lane + k * kWarp < count) {
      part[block * a.block + lane + k * kWarp] = l.codes[k];
    }
  }
  if (lane == 0) {
    *scaleOf(a, part, block) = scale;
  }
}

// The numbers of a block's codes, or the sums of them and of the values.
template <bool ADD>
__device__ __forceinline__ void loadBlock(const nccl4jQuantiseArguments& a, Lane& l, uint8_t* part,
                                          uint64_t block, int lane, int count) {
  const float scale = *scaleOf(a, part, block);
#pragma unroll
  for (int k = 0; k < kMostOfLane; k++) {
    if (lane + k * kWarp < count) {
      const float x = __fmul_rn(number(a, part[block * a.block + lane + k * kWarp]), scale);
      l.values[k] = ADD ? __fadd_rn(l.values[k], x) : x;
    }
  }
}

// Elements of a block of a part: 0 behind the last.
__device__ __forceinline__ int elements(const nccl4jQuantiseArguments& a, uint64_t part, uint64_t block) {
  const uint64_t begin = part * a.part;
  const uint64_t whole = begin >= a.count ? 0 : min(a.part, a.count - begin);
  const uint64_t before = block * a.block;
  return before >= whole ? 0 : static_cast<int>(min(static_cast<uint64_t>(a.block), whole - before));
}

// Calls body(part, block, elements, lane) for each block of some parts, each on a warp.
template <class Body>
__device__ __forceinline__ void forBlocks(const nccl4jQuantiseArguments& a, uint64_t nParts,
                                          uint64_t firstPart, Body body) {
  const int lane = threadIdx.x % kWarp;
  const uint64_t warps = static_cast<uint64_t>(gridDim.x) * (blockDim.x / kWarp);
  for (uint64_t at = blockIdx.x * (blockDim.x / kWarp) + threadIdx.x / kWarp; at < nParts * a.blocks; at += warps) {
    const uint64_t part = firstPart + at / a.blocks;
    const uint64_t block = at % a.blocks;
    const int count = elements(a, part, block);
    if (count > 0) {
      body(part, block, count, lane);
    }
  }
}

// Makes all parts (recv) of elements (send).
template <class T>
__device__ void quantise(const nccl4jQuantiseArguments& a) {
  const T* send = reinterpret_cast<const T*>(a.send);
  uint8_t* recv = reinterpret_cast<uint8_t*>(a.recv);
  float* residual = reinterpret_cast<float*>(a.residual);
  forBlocks(a, a.nParts, 0, [&](uint64_t part, uint64_t block, int count, int lane) {
    const uint64_t first = part * a.part + block * a.block + lane;
    Lane l;
#pragma unroll
    for (int k = 0; k < kMostOfLane; k++) {
      if (lane + k * kWarp < count) {
        const float x = static_cast<float>(send[first + k * kWarp]);
        l.values[k] = residual == nullptr ? x : __fadd_rn(x, residual[first + k * kWarp]);
      }
    }
    const float scale = encode(a, l, lane, count);
    storeBlock(a, l, scale, recv + part * a.partBytes, block, lane, count);
    if (residual != nullptr && scale == scale) {
#pragma unroll
      for (int k = 0; k < kMostOfLane; k++) {
        if (lane + k * kWarp < count) {
          residual[first + k * kWarp] =
              __fsub_rn(l.values[k], __fmul_rn(number(a, l.codes[k]), scale));
        }
      }
    }
  });
}

// Adds all copies of this rank's part (send) in their order; makes elements or a part (recv).
template <class T>
__device__ void sum(const nccl4jQuantiseArguments& a) {
  uint8_t* send = reinterpret_cast<uint8_t*>(a.send);
  float* residual = reinterpret_cast<float*>(a.residual);
  const uint64_t rank = a.comm.rank;
  forBlocks(a, 1, rank, [&](uint64_t, uint64_t block, int count, int lane) {
    Lane l;
    loadBlock<false>(a, l, send, block, lane, count);
    for (uint32_t copy = 1; copy < a.nParts; copy++) {
      loadBlock<true>(a, l, send + copy * a.partBytes, block, lane, count);
    }
    if (a.averages) {
#pragma unroll
      for (int k = 0; k < kMostOfLane; k++) {
        if (lane + k * kWarp < count) {
          l.values[k] = __fdiv_rn(l.values[k], static_cast<float>(a.nParts));
        }
      }
    }
    if (!a.quantises) {
      T* recv = reinterpret_cast<T*>(a.recv) + block * a.block + lane;
#pragma unroll
      for (int k = 0; k < kMostOfLane; k++) {
        if (lane + k * kWarp < count) {
          recv[k * kWarp] = static_cast<T>(l.values[k]);
        }
      }
      return;
    }
    const float scale = encode(a, l, lane, count);
    storeBlock(a, l, scale, reinterpret_cast<uint8_t*>(a.recv), block, lane, count);
    if (residual != nullptr && scale == scale) {
      const float weight = a.averages ? static_cast<float>(a.nParts) : 1;
      float* own = residual + rank * a.part + block * a.block + lane;
#pragma unroll
      for (int k = 0; k < kMostOfLane; k++) {
        if (lane + k * kWarp < count) {
          const float error = __fsub_rn(l.values[k], __fmul_rn(number(a, l.codes[k]), scale));
          own[k * kWarp] = __fadd_rn(own[k * kWarp], __fmul_rn(weight, error));
        }
      }
    }
  });
}

// Makes elements (recv) of all parts (send).
template <class T>
__device__ void dequantise(const nccl4jQuantiseArguments& a) {
  uint8_t* send = reinterpret_cast<uint8_t*>(a.send);
  forBlocks(a, a.nParts, 0, [&](uint64_t part, uint64_t block, int count, int lane) {
    Lane l;
    loadBlock<false>(a, l, send + part * a.partBytes, block, lane, count);
    T* recv = reinterpret_cast<T*>(a.recv) + part * a.part + block * a.block + lane;
#pragma unroll
    for (int k = 0; k < kMostOfLane; k++) {
      if (lane + k * kWarp < count) {
        recv[k * kWarp] = static_cast<T>(l.values[k]);
      }
    }
  });
}

}  // namespace quantise
}  // namespace nccl4j
