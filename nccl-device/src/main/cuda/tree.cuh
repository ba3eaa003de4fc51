// The tree algorithm, as steps for the primitives of any protocol. It calls run at one place, where
// the compiler inlines the protocol.
//
// Row 0 of algorithms.h: TREE, tree, tree, PARENT_AND_CHILDREN, ALL
#pragma once
#include "share.cuh"
#include "step.cuh"

namespace nccl4j {

// All-reduce over a tree: each slice goes up, and comes down kLag slices later, so that both directions overlap.
// Broadcast down and reduce up the same tree with the operation's root on top (class Tree). In the fan, 0 is the
// parent, and the children follow; at the operation's root 0 is a child too, or none.
template <class P>
__device__ __forceinline__ void tree(P& p, const nccl4jCollectiveArguments& a, int channel) {
  constexpr u64 kLag = 6;  // less than the number of slots
  const bool both = kCombines && a.collective == ALL_REDUCE;
  u32 neighbours = a.treeUp[channel] != NCCL4J_NONE;
  for (int i = 0; i < NCCL4J_TREE_CHILDREN; i++)
    neighbours |= (u32)(a.treeDown[i][channel] != NCCL4J_NONE) << (i + 1);
  const bool top = both ? !(neighbours & 1) : (u32)a.comm.rank == a.root;
  const u32 parent = top ? 0 : 1, children = neighbours & ~parent;
  const int first = kCombines ? 0 : 1, last = both ? parent : first;
  const u64 lag = both ? kLag : 0;
  const Share share(a.bytes, a.nChannels, channel);
  const u64 slices = (share.bytes + a.sliceBytes - 1) / a.sliceBytes;
  for (u64 i = 0; i < slices + lag; i++) {
    for (int down = first; down <= last; down++) {
      const u64 slice = i - (down ? lag : 0);
      if (slice >= slices) continue;  // also before the first, which wraps
      const u64 at = share.begin + slice * a.sliceBytes;
      Step step;
      step.bytes = (u32)min((u64)a.sliceBytes, share.begin + share.bytes - at);
      step.src = down && !top ? nullptr : (const char*)a.send + at;
      step.dst = down || top ? (char*)a.recv + at : nullptr;
      if (!kCombines && step.dst == step.src) step.dst = nullptr;
      step.recvMask = down ? parent : children;
      step.sendMask = down || (both && top) ? children : parent;
      step.recvCount = step.sendCount = (u32)slice;
      step.creditClass = down || top;
      step.scale = SCALE_OWN;
      step.last = top;
      p.run(step);
    }
  }
}

}  // namespace nccl4j
