// Combine. Each rank returns the rows that the last dispatch brought it, now its experts' outputs, into the
// owners' buffers. The owner adds a token's rows, times their weights, in float32 in the order of k, and
// rounds the sum once. So the result does not depend on which rank has which expert.
//
// The buffer needs no halves: between two combines every rank receives flags of a dispatch from all, which
// they sent after the combine before. Without a dispatch between them, the ranks meet first.
#pragma once
#include "expert_sum.cuh"

namespace nccl4j {
namespace experts {

// Sends this block's rows back. False if the experts' outputs lack one.
__device__ __forceinline__ bool returnRows(const nccl4jExpertArguments& a, u32 listed) {
  const u32 ofSource = a.maxTokens * a.topK;
  return forRows(listOf(a), listed, [&](u64 item, Share share) {
    const u32 entry = (u32)item;
    const u64 row = item >> 32;
    if (row >= a.sentRows) {
      fail((nccl4jControl*)a.comm.control, a.comm.rank, 0, kFewOutputs, a.sentRows << 32 | row);
      return false;
    }
    copyRow(peer(a, entry / ofSource, a.outputs + (u64)(entry % ofSource) * a.rowBytes),
            (const char*)a.send + row * a.rowBytes, a.rowBytes, share);
    return true;
  });
}

// Adds the rows of this block's tokens.
template <class T>
__device__ __forceinline__ void addRows(const nccl4jExpertArguments& a) {
  const u32 count = *(const u32*)a.keptCount, packs = a.rowBytes / 16;
  const u32 tokens = blockIdx.x < count ? (count - blockIdx.x + gridDim.x - 1) / gridDim.x : 0;
  const int* experts = (const int*)a.keptExperts;
  const float* weights = (const float*)a.keptWeights;
  for (u32 i = threadIdx.x; i < tokens * packs; i += blockDim.x) {
    const u32 token = blockIdx.x + i / packs * gridDim.x, at = i % packs * 16;
    Sum<T> sum;
#pragma unroll 8
    for (u32 k = 0; k < a.topK; k++) {
      const u32 entry = token * a.topK + k;
      if (experts[entry] >= 0) sum.add(loadData(own(a, a.outputs + (u64)entry * a.rowBytes + at)), weights[entry]);
    }
    storeData((char*)a.recv + (u64)token * a.rowBytes + at, sum.rounded());
  }
}

template <class T>
__device__ __forceinline__ void combine(const nccl4jExpertArguments& a) {
  awaitPredecessor();
  admitSuccessor();
  const u64 number = state(a)->combines + 1;
  const u32 listed = min((u64)state(a)->listed, (u64)a.listCapacity);
  if (a.parts & EXPERT_SEND) {
    if (state(a)->kind == EXPERT_COMBINE) {
      tellAll(a, a.beginFlags, number);
      awaitAll(a, a.beginFlags, number);
    }
    if (__syncthreads_or(!returnRows(a, listed))) return;  // no rank takes what is missing for sent
    tellAll(a, a.combineFlags, number);
  }
  if (!(a.parts & EXPERT_RECEIVE)) return;
  awaitAll(a, a.combineFlags, number);
  addRows<T>(a);
  __syncthreads();
  if (threadIdx.x == 0) {
    state(a)->combines = number;
    state(a)->kind = EXPERT_COMBINE;
  }
}

}  // namespace experts
}  // namespace nccl4j
