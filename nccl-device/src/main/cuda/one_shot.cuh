// The one-shot algorithm: each rank sends its data straight to the ranks that need them. It has one call of
// run, where the compiler inlines the protocol.
//
// Row 2 of algorithms.h: ONE_SHOT, one_shot, oneShot, ALL_OTHERS, ALL
#pragma once
#include "share.cuh"
#include "step.cuh"

namespace nccl4j {

// Sends directly to the ranks that need the data. Fan: all other ranks in order. Data are combined in
// rank order, so that all ranks get the same result from the same data.
template <class P>
__device__ __forceinline__ void oneShot(P& p, const nccl4jCollectiveArguments& a, int channel) {
  constexpr u64 kLag = 2;  // slices between sending and receiving
  const u32 collective = a.collective, root = a.root, rank = a.comm.rank;
  const u32 all = (u32)((1ull << (a.comm.nRanks - 1)) - 1);
  const u32 rootBit = rank == root ? 0 : 1u << (root - (root > rank));
  const bool rooted = collective == BROADCAST || collective == REDUCE;
  const bool sends = !rooted || (collective == BROADCAST) == (rank == root);
  const bool receives = !rooted || !sends;
  const bool scalesSent = kCombines && a.op == PREMUL;  // a mean scales received data
  const Share share(a.bytes, a.nChannels, channel);
  const u64 slices = (share.bytes + a.sliceBytes - 1) / a.sliceBytes;
  if (!rooted && slices <= NCCL4J_UNTOLD_STEPS) p.mutual();
  for (u64 i = 0; i < slices + kLag; i++) {
    for (int receiving = 0; receiving < 2; receiving++) {
      if (receiving ? i < kLag || !receives : i >= slices || !sends) continue;
      u64 slice = receiving ? i - kLag : i;
      u64 at = share.begin + slice * a.sliceBytes;
      const char* send = (const char*)a.send + at;
      char* recv = (char*)a.recv + at;
      Step step;
      step.bytes = (u32)min((u64)a.sliceBytes, share.begin + share.bytes - at);
      step.stride = a.bytes;
      step.recvCount = step.sendCount = (u32)slice;
      step.scale = scalesSent ? SCALE_OWN : SCALE_NONE;
      if (receiving) {
        step.recvMask = collective == BROADCAST ? rootBit : all;
        step.kind = collective == ALL_GATHER ? STEP_GATHER : STEP_REDUCE;
        step.dst = recv;
        if (collective == REDUCE_SCATTER) send += rank * a.bytes;
        if (collective != ALL_GATHER && collective != BROADCAST) step.src = send;
        if (!scalesSent) step.scale = SCALE_ALL;
        step.last = true;
      } else {
        step.sendMask = collective == REDUCE ? rootBit : all;
        step.kind = collective == REDUCE_SCATTER ? STEP_SCATTER : STEP_REDUCE;
        step.src = send;
        if (collective == ALL_GATHER) recv += rank * a.bytes;
        if ((collective == ALL_GATHER || collective == BROADCAST) && recv != send) step.dst = recv;
      }
      // A part for each peer, all of them scaled: by itself where only what is combined is scaled.
      const bool apart = !P::kScalesScatters && scalesSent && step.kind == STEP_SCATTER;
      for (u32 peer = 0; peer < (apart ? a.comm.nRanks - 1 : 1); peer++) {
        if (apart) {
          step.kind = STEP_REDUCE;
          step.sendMask = 1u << peer;
          step.src = send + (peer + (peer >= rank)) * a.bytes;
        }
        p.run(step);
      }
    }
  }
}

}  // namespace nccl4j
