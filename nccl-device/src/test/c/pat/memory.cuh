// Stands for the kernels' header of this name, for a schedule on the host.
#pragma once
#include <cstdint>

namespace nccl4j {

using u32 = uint32_t;
using u64 = unsigned long long;

struct Pack {
  u64 lo, hi;
};

u64 loadWordRelaxed(const void*);
Pack loadPack(const void*);

}  // namespace nccl4j
