// Dispatch. Each rank sends a token once to every rank that has one of the token's experts, and the table
// of its expert numbers to all. From the tables of all ranks, every rank computes the rows of the tokens that
// it receives, in the order of local expert, source rank, token and k. It takes a token from the staging area
// once, and stores it to all of its rows. So data cross the links once, in one flight, no counts have to be
// exchanged first, and no rank waits for more than the lines that it takes.
//
// The staging area has two halves. A rank writes into a half again two dispatches later. By then it has
// received the tables of the dispatch between, which the other ranks sent after the one before.
#pragma once
#include "expert_count.cuh"

namespace nccl4j {
namespace experts {

// Sends the number of tokens and the expert numbers, and keeps these and the weights for combine. Without the
// line of an expert that does not exist: no rank takes this for a dispatch.
__device__ __forceinline__ void sendTable(const nccl4jExpertArguments& a, u64 half, LineFlags flags) {
  const u32 entries = a.tokenCount * a.topK, lines = 1 + linesOf(entries);
  const u32 each = (lines + gridDim.x - 1) / gridDim.x, end = min(lines, (blockIdx.x + 1) * each);
  // All blocks send some, by their last warps, while the first load tokens: lines that come late would wait for
  // tokens on the links.
  const u32 thread = (blockDim.x / 32 - 1 - threadIdx.x / 32) * 32 + threadIdx.x % 32;
  for (u32 line = blockIdx.x * each + thread; line < end; line += blockDim.x) {
    u64 data = line == 0 ? a.tokenCount : 0;
    bool valid = true;
    for (u32 h = 0; line > 0 && h < kLineEntries; h++) {
      const u32 entry = (line - 1) * kLineEntries + h;
      if (entry >= entries) break;
      const int expert = ((const int*)a.experts)[entry];
      if (expert >= (int)a.nExperts || expert < -1) {
        valid = false;
        fail((nccl4jControl*)a.comm.control, a.comm.rank, 0, kInvalidExpert, (u64)entry << 32 | (u32)expert);
      }
      data |= (u64)((u32)expert & kNoExpert) << 16 * h;
    }
    const u64 at = a.tables + (half * a.comm.nRanks + a.comm.rank) * a.tableBytes + 16ull * line;
    for (int d = 0; valid && d < a.comm.nRanks; d++) {
      const int to = a.comm.rank + d < a.comm.nRanks ? a.comm.rank + d : a.comm.rank + d - a.comm.nRanks;
      storeLine(peer(a, to, at), data, flags);
    }
    for (u32 h = 0; line > 0 && h < kLineEntries; h++) {
      const u32 entry = (line - 1) * kLineEntries + h;
      if (entry >= entries) break;
      const u32 expert = (u32)(data >> 16 * h) & kNoExpert;
      ((int*)a.keptExperts)[entry] = expert == kNoExpert ? -1 : (int)expert;
      ((float*)a.keptWeights)[entry] = ((const float*)a.weights)[entry];
    }
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) *(u32*)a.keptCount = a.tokenCount;
}

// Takes this block's tokens from the staging area, its own rank's first.
template <Wire WIRE>
__device__ __forceinline__ void takeTokens(const nccl4jExpertArguments& a, u64 half, u64 number,
                                           DispatchShared& s) {
  const u32 quads = quadsOf(a.wireRow / 16), warps = blockDim.x / 32;
  u32 tokens = 0;
#pragma unroll 1
  for (int source = 0; source < a.comm.nRanks; source++) tokens += tokensOfBlock(s.counts[source]);
  const u32 each = quadsAtOnce(tokens * quads), parts = (quads + each - 1) / each;
  const nccl4jExpertPlace* places = placesOf(a, s);
  Patience patience(a.comm);
  int source = a.comm.rank;
  u32 ahead = 0;  // tokens of the sources in front
#pragma unroll 1
  for (u32 item = threadIdx.x / 32; item < tokens * parts; item += warps) {
    u32 at = item / parts - ahead;
#pragma unroll 1
    for (u32 its; at >= (its = tokensOfBlock(s.counts[source])); at -= its) {
      ahead += its;
      source = source + 1 < a.comm.nRanks ? source + 1 : 0;
    }
    const u32 quad = item % parts * each;
    const nccl4jExpertPlace* its = places + (source * placesOfSource(a) + at * a.topK);
    auto rowsFrom = [&](u32 k) {
      k += threadIdx.x % 32;
      return k < a.topK ? its[k].ahead : kNobody;
    };
    const char* from = own(a, stagedAt(a, half, source, blockIdx.x + at * gridDim.x));
    if (!takeQuads<WIRE>(a, from, quad, min(each, quads - quad), number, source, patience, rowsFrom)) return;
  }
}

template <class T, Wire WIRE>
__device__ __forceinline__ void dispatch(const nccl4jExpertArguments& a) {
  __shared__ DispatchShared s;
  awaitPredecessor();
  admitSuccessor();
  clear(a, s);
  const u64 number = state(a)->dispatches + 1, half = number & 1;
  const LineFlags flags((u32)number, kTableSignature);
  if (a.parts & EXPERT_SEND) {
    sendTable(a, half, flags);
    sendTokens<T, WIRE>(a, half, number);
    if (!a.wholeLines) tellAll(a, a.dispatchFlags, number);
  }
  if (!(a.parts & EXPERT_RECEIVE)) return;
  Tables tables(a, half, flags);
  countRows(a, tables, s);
  if (!a.wholeLines) awaitAll(a, a.dispatchFlags, number);
  takeTokens<WIRE>(a, half, number, s);
  __syncthreads();
  if (threadIdx.x == 0) {
    state(a)->dispatches = number;
    state(a)->kind = EXPERT_DISPATCH;
    state(a)->batches = s.batches;
    state(a)->batchTokens = s.batchTokens;
    for (u32 batch = 0; batch < s.batches; batch++) state(a)->listed[batch] = s.listedOf[batch];
  }
}

}  // namespace experts
}  // namespace nccl4j
