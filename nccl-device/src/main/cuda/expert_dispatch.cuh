// Dispatch. Each rank sends a token once to every rank that has one of the token's experts, and ahead of the tokens
// what the receivers need to compute the tokens' rows, in the order of local expert, source rank, token and k. The
// receiver takes a token from the staging area once, and stores it to all of its rows. So data cross the links once,
// in one flight, no counts have to be exchanged first, and no block waits for more than the same block of the others.
//
// The staging area and the messages have two halves. A block writes into a half again two dispatches later. By then
// it has received the messages of the dispatch between, which the other ranks sent after the one before.
#pragma once
#include "expert_count.cuh"

namespace nccl4j {
namespace experts {

// Takes this block's tokens from the staging area, its own rank's first.
template <Wire WIRE>
__device__ __forceinline__ void takeTokens(const nccl4jExpertArguments& a, u64 half, u64 number,
                                           DispatchShared& s) {
  const u32 quads = quadsOf(a.wireRow / 16), warps = blockDim.x / 32;
  u32 tokens = 0;
#pragma unroll 1
  for (int source = 0; source < a.comm.nRanks; source++) tokens += tokensOfBlock(s.counts[source]);
  const u32 each = quadsAtOnce(tokens * quads), parts = (quads + each - 1) / each;
  const u32* rows = placesOf(a, s);
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
    const u32* its = rows + (source * placesOfSource(a) + at * a.topK);
    auto rowsFrom = [&](u32 k) {
      k += threadIdx.x % 32;
      return k < a.topK ? its[k] : kNobody;
    };
    const char* from = own(a, stagedAt(a, half, source, blockIdx.x + at * gridDim.x));
    if (!takeQuads<WIRE>(a, from, quad, min(each, quads - quad), number, source, patience, rowsFrom)) return;
  }
}

template <class T, Wire WIRE>
__device__ __forceinline__ void dispatch(const nccl4jExpertArguments& a, DispatchShared& s) {
  awaitPredecessor();
  admitSuccessor();
  clear(a, s);
  const u64 number = state(a)->dispatches + 1, half = number & 1;
  const LineFlags flags((u32)number, kMessageSignature);
  if (a.parts & EXPERT_SEND) {
    sendTokens<T, WIRE>(a, half, number, [&] { sendMessages(a, s, half, flags); });
    keepEntries(a);
    if (!a.wholeLines) tellAll(a, a.dispatchFlags, number);
  }
  if (!(a.parts & EXPERT_RECEIVE)) return;
  if (!findRows(a, s, half, flags)) return;
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
