// Dispatch. Each rank sends a token once to every rank that has one of the token's experts, and beside the tokens
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

// A place for quads of tokens that arrive: of a source rank, this block's token of a number, and the first quad.
struct Item {
  u32 source, at, quad;
};

// Takes this block's tokens from the staging area, its own rank's last. Each warp looks for its first quads while the
// rows are not known yet: those that it finds wait in registers.
template <Wire WIRE>
__device__ __forceinline__ void takeTokens(const nccl4jExpertArguments& a, DispatchShared& s, u64 half, u64 number,
                                           const Crew& counters) {
  const u32 quads = quadsOf(a.wireRow / 16), warps = blockDim.x / 32, nRanks = a.comm.nRanks;
  const u32 each = quadsAtOnce(a.blockTokens * nRanks * quads, warps), parts = (quads + each - 1) / each;
  const u32 ofSource = a.blockTokens * parts;
  Arriving<WIRE> arriving(a, number);
  auto find = [&](u32 item) {
    const u32 rest = item % ofSource;
    return Item{inTurn(a, item / ofSource), rest / parts, rest % parts * each};
  };
  auto begin = [&](const Item& item) {
    const u64 staged = stagedAt(a, half, item.source, blockIdx.x + item.at * gridDim.x);
    arriving.begin(own(a, staged), item.quad, min(each, quads - item.quad));
  };
  const bool counts = counters.mine();
  if (counts) takeMessages(a, s, half, LineFlags((u32)number, kMessageSignature), counters);
  u32 next = threadIdx.x / 32;
  Item item = find(next);
  // A block's last token may be one more than there is room for.
  bool begun = next < ofSource * nRanks && blockIdx.x + item.at * gridDim.x < a.maxTokens, there = false;
  if (begun) begin(item);
  if (counts) {
    findRows(a, s, counters);
    tellRows(s, number, counters);
  } else {
    while (begun && !there && !rowsKnown(s, number)) there = arriving.look();
    barrierSync(kRowsBarrier, blockDim.x);
  }
  if (s.dead) return;
  Patience patience(a.comm);
  bool dead = false;
#pragma unroll 1
  while (next < ofSource * nRanks) {
    const u32* its = placesOf(a, s) + (item.source * placesOfSource(a) + item.at * a.topK);
    auto rowOf = [&](u32 k) {
      k += threadIdx.x % 32;
      return k < a.topK ? its[k] : kNobody;
    };
    bool none = true;
#pragma unroll 1
    for (u32 k = 0; k < a.topK; k += 32) none &= rowOf(k) == kNobody;
    if (!__all_sync(~0u, none)) {  // it was sent here
      if (!begun) begin(item);
      u32 looks = 0;
#pragma unroll 1
      while (!there && !(there = arriving.look()) && !dead) {
        dead = __any_sync(~0u, patience.exhausted(item.source, blockIdx.x, 0, number));
        if (++looks > kEagerLooks) __nanosleep(kPause);
      }
      if (dead) break;
#pragma unroll 1
      for (u32 k = 0; k < a.topK; k += 32) {
        const u32 mine = rowOf(k);
#pragma unroll 1
        for (u32 left = __ballot_sync(~0u, mine != kNobody); left != 0; left &= left - 1)
          arriving.store(__shfl_sync(~0u, mine, __ffs(left) - 1), min(each, quads - item.quad));
      }
    }
    next += warps;
    item = find(next);
    begun = there = false;
  }
  if (counts) listRows(a, s, counters);
}

// A quarter of a block's warps send tokens, while the others count entries and send and take messages. More that send
// would fill the multiprocessor's way to memory with stores, which all loads then wait behind.
template <class T, Wire WIRE>
__device__ __forceinline__ void dispatch(const nccl4jExpertArguments& a, DispatchShared& s) {
  awaitPredecessor();
  admitSuccessor(a.comm);
  const u64 number = state(a)->dispatches + 1, half = number & 1;
  const u32 warps = blockDim.x / 32, sending = max(1u, warps / 4), counting = max(1u, warps - sending);
  const Crew senders{0, sending}, counters{warps - counting, counting};  // of a single warp it is in both
  const bool sends = a.parts & EXPERT_SEND, receives = a.parts & EXPERT_RECEIVE;
  if (counters.mine()) {
    clear(a, s, counters);
    if (sends) sendMessages(a, s, half, LineFlags((u32)number, kMessageSignature), counters);
  }
  if (sends && senders.mine()) sendTokens<T, WIRE>(a, half, number, senders);
  if (sends && counters.mine()) keepEntries(a, counters);
  if (!a.wholeLines) {
    if (sends) tellAll(a, a.dispatchFlags, number);
    if (receives) awaitAll(a, a.dispatchFlags, number);
  }
  if (!receives) return;
  takeTokens<WIRE>(a, s, half, number, counters);
  if (s.dead) return;
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
