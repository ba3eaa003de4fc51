// Combine. Each rank returns the rows that the last dispatch brought it, now its experts' outputs, into the
// owners' buffers. The owner adds a token's rows, times their weights, in float32 in the order of k, and
// rounds the sum once. So the result does not depend on which rank has which expert.
//
// A block with many tokens takes them in batches. Each warp returns its rows of one, and adds rows of the one before
// while its stores are on their way and other warps still return theirs.
//
// The buffer needs no halves: between two combines every rank receives flags of a dispatch from all, which
// they sent after the combine before. Without a dispatch between them, the ranks meet first.
#pragma once
#include "expert_sum.cuh"

namespace nccl4j {
namespace experts {

// The flag of a batch, above those of all batches before.
__device__ __forceinline__ u64 batchFlag(u64 number, u32 batch) {
  return number * NCCL4J_EXPERT_BATCHES + batch + 1;
}

// Returns this block's rows of a batch. False if the experts' outputs lack one.
__device__ __forceinline__ bool returnRows(const nccl4jExpertArguments& a, u32 batch) {
  const u32 ofSource = a.maxTokens * a.topK;
  const u32 from = batch == 0 ? 0 : state(a)->listed[batch - 1];
  const u32 end = min((u64)state(a)->listed[batch], (u64)a.listCapacity);
  return forRows(listOf(a) + from, end - from, [&](u64 item, Share share) {
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

// Adds the rows of this block's tokens from one on.
template <class T>
__device__ __forceinline__ void addRows(const nccl4jExpertArguments& a, u32 first, u32 end) {
  const u32 packs = a.rowBytes / 16;
  const int* experts = (const int*)a.keptExperts;
  const float* weights = (const float*)a.keptWeights;
  for (u32 i = first * packs + threadIdx.x; i < end * packs; i += blockDim.x) {
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
  admitSuccessor(a.comm);
  const u64 number = state(a)->combines + 1;
  const bool sends = a.parts & EXPERT_SEND, receives = a.parts & EXPERT_RECEIVE;
  const u32 kept = *(const u32*)a.keptCount;
  if (receives && kept > a.resultRows) {  // the host does not know which dispatch of a graph ran last
    if (threadIdx.x == 0)
      fail((nccl4jControl*)a.comm.control, a.comm.rank, 0, kFewResults, (u64)a.resultRows << 32 | kept);
    return;
  }
  if (sends && state(a)->kind == EXPERT_COMBINE) {
    tellAll(a, a.beginFlags, number);
    awaitAll(a, a.beginFlags, number);
  }
  const u32 batches = min(max(state(a)->batches, 1u), (u32)NCCL4J_EXPERT_BATCHES), each = state(a)->batchTokens;
  const u32 tokens = tokensOfBlock(kept);
  auto add = [&](u32 batch) {
    addRows<T>(a, min(tokens, batch * each), batch + 1 == batches ? tokens : min(tokens, (batch + 1) * each));
  };
  const bool beside = sends && receives && batches > 1;  // adds a batch while it returns the next
#pragma unroll 1
  for (u32 step = 0; step < batches + beside; step++) {
    const bool returns = sends && step < batches, lacks = returns && !returnRows(a, step);
    if (beside && step > 0) add(step - 1);
    if (returns) {
      if (__syncthreads_or(lacks)) return;  // no rank takes what is missing for sent
      tellAll(a, a.combineFlags, batchFlag(number, step));
    }
    if (!receives || step == batches) continue;
    awaitAll(a, a.combineFlags, batchFlag(number, step));
    if (!beside) add(step);
  }
  __syncthreads();
  if (threadIdx.x == 0 && receives) {
    state(a)->combines = number;
    state(a)->kind = EXPERT_COMBINE;
  }
}

}  // namespace experts
}  // namespace nccl4j
