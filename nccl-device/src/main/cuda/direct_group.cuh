// Several operations of a group in lines, by one kernel. They share its number, and each has lines of its own
// in the half, so they do not wait for each other. A rank may also run them by several kernels of the same
// number, one after the other: then only the last one ends it. So other ranks need not know.
#pragma once
#include "direct_group_layout.h"
#include "direct_ll.cuh"

namespace nccl4j {
namespace direct {

template <class T, Received RECEIVED>
__device__ __forceinline__ void llGroup(const nccl4jDirectGroupArguments& g) {
  const nccl4jDirectArguments& a = g.direct;
  begin(a);
  const u32 number = epoch(a);
  // All parts are sent before the first is awaited.
  for (int receiving = 0; receiving < 2; receiving++) {
    for (u32 part = blockIdx.x; part < g.nParts; part += gridDim.x) {
      const nccl4jDirectWork& w = g.works[g.workOf[part]];
      const LineWork<T, RECEIVED> work(a, w.send, w.recv, w.bytes, w.operation, w.op, w.root,
                                       halfOf(a, number) + w.lines, LineFlags(number, w.signature));
      const u64 step = (u64)w.nParts * blockDim.x;
      const u64 first = (u64)(part - w.firstPart) * blockDim.x + threadIdx.x;
      if (receiving)
        work.receive(first, step);
      else
        work.send(first, step);
    }
  }
  if (g.ends) finish(a, number);
}

}  // namespace direct
}  // namespace nccl4j
