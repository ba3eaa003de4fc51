// Stands for the kernels' header of this name, for kernels with lines on the host.
#pragma once
#include <cstdint>

struct uint4 {
  uint32_t x, y, z, w;
};

namespace nccl4j {

using u32 = uint32_t;
using u64 = unsigned long long;

struct Pack {
  u64 lo, hi;
};

// As the kernels' own.
struct LineFlags {
  u32 step, call;
  LineFlags(u32 step, u32 signature) : step(step), call(step + (signature << 16)) {}
  bool match(uint4 line) const { return line.y == step && line.w == call; }
  u64 unlike(uint4 line) const { return line.y == step && line.w != call; }
};

// A line is seen whole, as on a GPU: its step is stored last and loaded first, so with a new step come call and data.
inline void storeLine(void* p, u64 data, LineFlags flags) {
  u32* line = (u32*)p;
  __atomic_store_n(line + 0, (u32)data, __ATOMIC_RELAXED);
  __atomic_store_n(line + 2, (u32)(data >> 32), __ATOMIC_RELAXED);
  __atomic_store_n(line + 3, flags.call, __ATOMIC_RELAXED);
  __atomic_store_n(line + 1, flags.step, __ATOMIC_RELEASE);
}

inline uint4 loadLine(const void* p) {
  const u32* line = (const u32*)p;
  uint4 v;
  v.y = __atomic_load_n(line + 1, __ATOMIC_ACQUIRE);
  v.x = __atomic_load_n(line + 0, __ATOMIC_RELAXED);
  v.z = __atomic_load_n(line + 2, __ATOMIC_RELAXED);
  v.w = __atomic_load_n(line + 3, __ATOMIC_RELAXED);
  return v;
}

inline u32 loadControl(const void* p) { return __atomic_load_n((const u32*)p, __ATOMIC_ACQUIRE); }

// Of barriers of blocks, which kernels with lines have not.
u64 loadWordAcquire(const void*);
void storeWordRelaxed(void*, u64);
void storeWordRelease(void*, u64);

}  // namespace nccl4j
