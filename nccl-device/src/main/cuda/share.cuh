// Division of a buffer among channels and ranks, in multiples of 128 bytes.
#pragma once
#include "memory.cuh"

namespace nccl4j {

// A channel's share of a buffer.
struct Share {
  u64 begin, bytes;

  __device__ Share(u64 total, u32 nChannels, u32 channel) {
    u64 each = ((total + nChannels - 1) / nChannels + 127) & ~127ull;
    begin = min((u64)total, each * channel);
    bytes = min((u64)total - begin, each);
  }
};

__device__ __forceinline__ u64 evenPart(u64 bytes, int parts) {
  return ((bytes + parts - 1) / parts + 127) & ~127ull;
}

}  // namespace nccl4j
