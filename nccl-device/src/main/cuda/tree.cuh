// The tree algorithm, as steps for the primitives of any protocol. It calls run at one place, where
// the compiler inlines the protocol.
//
// Row 0 of algorithms.h: TREE, tree, tree, PARENT_AND_CHILDREN, REDUCING
#pragma once
#include "share.cuh"
#include "step.cuh"

namespace nccl4j {

// All-reduce over a tree. In the fan, 0 is the parent, and the children follow. Each slice
// goes up, and comes down kLag slices later, so that both directions overlap.
template <class P>
__device__ __forceinline__ void tree(P& p, const nccl4jCollectiveArguments& a, int channel) {
  constexpr u64 kLag = 6;  // less than the number of slots
  const bool root = a.treeUp[channel] == NCCL4J_NONE;
  u32 children = 0;
  for (int i = 0; i < NCCL4J_TREE_CHILDREN; i++)
    children |= (u32)(a.treeDown[i][channel] != NCCL4J_NONE) << (i + 1);
  const Share share(a.bytes, a.nChannels, channel);
  const u64 slices = (share.bytes + a.sliceBytes - 1) / a.sliceBytes;
  for (u64 i = 0; i < slices + kLag; i++) {
    for (int down = 0; down < (root ? 1 : 2); down++) {
      if (down ? i < kLag : i >= slices) continue;
      u64 slice = down ? i - kLag : i;
      u64 at = share.begin + slice * a.sliceBytes;
      Step step;
      step.bytes = (u32)min((u64)a.sliceBytes, share.begin + share.bytes - at);
      step.src = down ? nullptr : (const char*)a.send + at;
      step.dst = down || root ? (char*)a.recv + at : nullptr;
      step.recvMask = down ? 1 : children;
      step.sendMask = down || root ? children : 1;
      step.recvCount = step.sendCount = (u32)slice;
      step.creditClass = down || root;
      step.scale = SCALE_OWN;
      step.last = root;
      p.run(step);
    }
  }
}

}  // namespace nccl4j
