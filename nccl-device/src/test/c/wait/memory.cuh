// Stands for the kernels' header of this name: what wait.cuh needs of it, with a clock that the test moves.
#pragma once
#include <cstdint>

#define __device__
#define __forceinline__ inline
#define __noinline__

namespace nccl4j {

using u32 = uint32_t;
using u64 = unsigned long long;

inline u64 now = 1;

inline void fenceSystem() {}
inline void storeWordRelaxed(void* p, u64 v) { *(u64*)p = v; }
inline void storeControl(void* p, u32 v) { *(u32*)p = v; }
inline u32 loadControl(const void* p) { return *(const u32*)p; }
inline u64 nanoseconds() { return now; }
inline u64 unlikeFlag(u64, u64) { return 0; }

}  // namespace nccl4j
