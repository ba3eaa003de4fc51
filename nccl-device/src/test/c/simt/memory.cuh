// Stands for the kernels' header of this name, for ranks on the host (simt.h). Lines of LL arrive late and in any order.
// If a program asks for it, packs are seen only once their block releases a word, or has ended.
#pragma once
#include <cstdint>
#include <cstring>

#include "simt.h"

namespace nccl4j {

using u32 = uint32_t;
using u64 = unsigned long long;

struct Pack {
  u64 lo, hi;
};

struct Line {
  void* to;
  uint4 words;
};

inline std::vector<Line> underWay;  // that have not arrived
inline char* windowsBegin;          // the memory that ranks store into
inline char* windowsEnd;

inline void checkWindow(const void* p, const char* what) {
  if ((const char*)p < windowsBegin || (const char*)p + 16 > windowsEnd || (u64)p % 16 != 0) simt::fail(what, -1);
}

// Lets one line arrive.
inline void arrive() {
  if (underWay.empty()) return;
  std::swap(underWay[simt::random() % underWay.size()], underWay.back());
  memcpy(underWay.back().to, &underWay.back().words, sizeof(uint4));
  underWay.pop_back();
}

struct LatePack {
  const simt::Block* by;
  Pack* to;
  Pack pack;
};

inline bool packsAreLate = false;
inline std::vector<LatePack> latePacks;

// Shows all packs that a block has stored.
inline void release(const simt::Block* by) {
  size_t left = 0;
  for (const LatePack& late : latePacks)
    if (late.by == by)
      *late.to = late.pack;
    else
      latePacks[left++] = late;
  latePacks.resize(left);
}

inline void (*onLoadPack)(const void*) = nullptr;  // may fail the test
inline Pack loadPack(const void* p) {
  if (onLoadPack != nullptr) onLoadPack(p);
  return *(const Pack*)p;
}
inline Pack loadData(const void* p) { return *(const Pack*)p; }
inline void storeData(void* p, Pack v) {
  if (packsAreLate)
    latePacks.push_back({simt::current->block, (Pack*)p, v});
  else
    *(Pack*)p = v;
}
inline void storePack(void* p, Pack v) {
  checkWindow(p, "a pack outside the windows");
  *(Pack*)p = v;
}

struct LineFlags {
  u32 step, call;

  LineFlags(u32 step, u32 signature) : step(step), call(step + (signature << 16)) {}
  bool match(uint4 line) const { return line.y == step && line.w == call; }
  u64 unlike(uint4 line) const {
    return line.y == step && line.w != step ? (u64)(call - step) << 32 | (line.w - step) : 0;
  }
};

inline void storeLine(void* p, u64 data, LineFlags flags) {
  checkWindow(p, "a line outside the windows");
  underWay.push_back({p, uint4{(u32)data, flags.step, (u32)(data >> 32), flags.call}});
}

inline uint4 loadLine(const void* p) {
  simt::giveWay();
  return *(const uint4*)p;
}

inline u64 loadWordAcquire(const void* p) {
  simt::giveWay();
  return *(const volatile u64*)p;
}

inline u64 loadWordRelaxed(const void* p) { return *(const volatile u64*)p; }
inline void storeWordRelaxed(void* p, u64 v) { *(u64*)p = v; }
inline void storeWordRelease(void* p, u64 v) {
  release(simt::current->block);
  *(u64*)p = v;
}
inline void fenceSystem() {}
inline u32 loadControl(const void* p) { return *(const u32*)p; }
inline void storeControl(void* p, u32 v) { *(u32*)p = v; }
inline u64 nanoseconds() { return 2; }  // no wait ends by its deadline
inline u64 flagOf(u64 step, u32 signature) { return step + 1 + ((u64)signature << 48); }
inline u64 unlikeFlag(u64 wanted, u64 found) {
  return wanted != found && (wanted ^ found) << 16 == 0 ? wanted >> 48 << 32 | found >> 48 : 0;
}

}  // namespace nccl4j
