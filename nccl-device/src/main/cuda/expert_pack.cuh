// Steps of an exchange with experts between ranks that do not reach each other's windows, on this rank's memory
// alone. The host knows from the tables of all ranks which rows go where, and sends and receives carry them.
// Each warp takes one row.
#pragma once
#include "expert.cuh"
#include "expert_fp8.cuh"
#include "expert_pack_layout.h"
#include "expert_sum.cuh"

namespace nccl4j {
namespace experts {

constexpr int kPackThreads = NCCL4J_EXPERT_PACK_THREADS;
constexpr int kPackBlocks = 2;  // of a multiprocessor

// Calls f(row to read, row to write, index of that) for this warp's rows.
template <class F>
__device__ __forceinline__ void forItems(const nccl4jExpertPackArguments& a, F f) {
  const u64 warps = (u64)gridDim.x * blockDim.x / 32;
  for (u64 i = ((u64)blockIdx.x * blockDim.x + threadIdx.x) / 32; i < a.count; i += warps) {
    const u64 item = a.items == 0 ? i : ((const u32*)a.items)[i];
    const u64 target = a.targets == 0 ? i : ((const u32*)a.targets)[i];
    f((const char*)a.send + item * a.from, (char*)a.recv + target * a.to, target);
  }
}

// Copies rows, and the scales behind each to a place of their own.
__device__ __forceinline__ void moveRows(const nccl4jExpertPackArguments& a) {
  forItems(a, [&](const char* from, char* to, u64 target) {
    copyRow(to, from, a.rowBytes, Share{0, 1});
    if (a.scales == 0) return;
    for (u32 group = threadIdx.x % 32; group < a.groups; group += 32)
      ((float*)a.scales)[target * a.groups + group] = ((const float*)(from + a.rowBytes))[group];
  });
}

// Makes rows of fp8, with the scales behind them, of tokens.
template <class T>
__device__ __forceinline__ void packFp8(const nccl4jExpertPackArguments& a) {
  using Eight = Fp8<T>;
  forItems(a, [&](const char* from, char* to, u64) {
#pragma unroll 1
    for (u32 first = 0; first < a.rowBytes; first += 32 * Eight::kMine) {
      const u32 at = first + threadIdx.x % 32 * Eight::kMine;
      Elements<T> x[Eight::kPacks];
#pragma unroll
      for (u32 p = 0; p < Eight::kPacks; p++)
        x[p].pack = at < a.rowBytes ? loadData(from + at * sizeof(T) + p * 16) : Pack{0, 0};
      const Eight made(x);
      if (at >= a.rowBytes) continue;
      storeData(to + at, made.pack);
      if (threadIdx.x % 8 == 0) ((float*)(to + a.rowBytes))[at / NCCL4J_EXPERT_GROUP] = made.scale;
    }
  });
}

// Adds the outputs of each token.
template <class T>
__device__ __forceinline__ void addOutputs(const nccl4jExpertPackArguments& a) {
  const u32 packs = a.rowBytes / 16;
  const u64 threads = (u64)gridDim.x * blockDim.x;
  for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < a.count * packs; i += threads) {
    const u64 token = i / packs, at = i % packs * 16;
    Sum<T> sum;
#pragma unroll 8
    for (u32 k = 0; k < a.topK; k++) {
      const u64 entry = token * a.topK + k;
      const int item = ((const int*)a.items)[entry];
      if (item < 0) continue;
      sum.add(loadData((const char*)a.send + item * a.from + at), ((const float*)a.weights)[entry]);
    }
    storeData((char*)a.recv + token * a.to + at, sum.rounded());
  }
}

}  // namespace experts
}  // namespace nccl4j
