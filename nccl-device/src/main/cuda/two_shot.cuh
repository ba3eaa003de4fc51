// The two-shot algorithm: all-reduce as a reduce-scatter and an all-gather among all ranks. It has one
// call of run, where the compiler inlines the protocol.
//
// Row 3 of algorithms.h: TWO_SHOT, two_shot, twoShot, ALL_OTHERS, REDUCING
#pragma once
#include "one_shot.cuh"
#include "share.cuh"
#include "step.cuh"

namespace nccl4j {

// All-reduce in two flights: every part to its owner, and the owner's sum to all. The parts of one
// round go out while those of the round before are summed and those of the one before are stored.
template <class P>
__device__ __forceinline__ void twoShot(P& p, const nccl4jCollectiveArguments& a, int channel) {
  const int n = a.comm.nRanks, rank = a.comm.rank;
  const u32 all = (u32)((1ull << (n - 1)) - 1);
  const Share share(a.bytes, a.nChannels, channel);
  const u64 most = a.sliceBytes;
  const u64 full = share.bytes / (most * n);  // rounds of full parts
  const u64 rounds = full + (share.bytes % (most * n) != 0);
  u32 sent = 0, received = 0;
  if (rounds <= 1)
    p.mutual();
  else
    p.remind();  // seven parts are in flight before the first four are received
  for (u64 i = 0; i < rounds + 2; i++) {
    for (u64 phase = 0; phase < 3; phase++) {
      if (i < phase || i - phase >= rounds) continue;
      u64 round = i - phase;
      u64 base = round * most * n;
      u64 rest = min(share.bytes - base, most * n);
      u64 part = round < full ? most : evenPart(rest, n);
      Step step;
      step.bytes = (u32)part;
      step.stride = part;
      step.limit = rest;
      step.recvMask = phase > 0 ? all : 0;
      step.sendMask = phase < 2 ? all : 0;
      step.recvCount = received;
      step.sendCount = sent;
      step.kind = phase == 0 ? STEP_SCATTER : phase == 1 ? STEP_REDUCE : STEP_GATHER;
      step.scale = SCALE_ALL;
      step.last = true;
      const char* src = (const char*)a.send + share.begin + base;
      char* dst = (char*)a.recv + share.begin + base;
      if (phase == 1) {
        step.bytes = step.part(rank);
        src += rank * part;
        dst += rank * part;
      }
      step.src = phase == 2 ? nullptr : src;
      step.dst = phase == 0 ? nullptr : dst;
      p.run(step);
      sent += phase < 2;
      received += phase > 0;
    }
  }
}

}  // namespace nccl4j
