// Stands for the kernels' header of this name, for blocks on the host (simt.h). What a block stores without order
// arrives late and in any order, words at one address one after the other; a fence lets all arrive.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "simt.h"

#define __device__
#define __forceinline__ inline
#define __noinline__
using std::min;

namespace nccl4j {

using u32 = uint32_t;
using u64 = unsigned long long;

struct Pack {
  u64 lo, hi;
};

struct LateWord {
  const simt::Block* by;
  void* to;
  u64 word;
  size_t bytes;
};

inline std::vector<LateWord> lateWords;
inline u64 now = 1000, tick = 0;  // nanoseconds, and how many pass from look to look

// Lets a word arrive, and those that were stored there before.
inline void arrive(size_t index) {
  for (size_t i = 0; i <= index; i++) {
    if (lateWords[i].to != lateWords[index].to) continue;
    memcpy(lateWords[i].to, &lateWords[i].word, lateWords[i].bytes);
    const bool last = i == index;
    lateWords.erase(lateWords.begin() + i--);
    if (last) return;
    index--;
  }
}

inline void arriveAny() {
  if (!lateWords.empty()) arrive(simt::random() % lateWords.size());
}

inline void store(void* p, u64 word, size_t bytes) { lateWords.push_back({simt::current->block, p, word, bytes}); }

inline void fenceSystem() {
  for (size_t i = 0; i < lateWords.size();)
    if (lateWords[i].by == simt::current->block)
      arrive(i), i = 0;
    else
      i++;
}

inline void storeWordRelaxed(void* p, u64 v) { store(p, v, sizeof v); }
inline void storeControl(void* p, u32 v) { store(p, v, sizeof v); }
inline u64 loadWordRelaxed(const void* p) { return *(const u64*)p; }
inline u32 loadControl(const void* p) { return *(const u32*)p; }
inline u64 loadWordAcquire(const void* p) {
  simt::giveWay();
  return *(const volatile u64*)p;
}
inline Pack loadPack(const void* p) { return *(const Pack*)p; }
inline u64 nanoseconds() { return now += tick; }
inline u64 unlikeFlag(u64, u64) { return 0; }

}  // namespace nccl4j
