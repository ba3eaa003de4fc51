// Stands for the kernels' header of this name, for direct kernels on the host: bytes and whole numbers of 64 bits.
#pragma once
#include <cstring>

#include "layout.h"
#include "memory.cuh"

namespace nccl4j {

template <class T>
constexpr bool kWidens = false;

struct Touch {
  bool scale, divide;
};
template <class T>
Touch touchFor(u32 op) {
  return {false, op == AVG};
}
struct Inside {};
template <class T>
Inside insideMean(u32, int) {
  return {};
}
template <class T>
u64 scaleElements(u64 x, int) {
  return x;
}
template <class T>
u64 divideElements(u64 x, int nRanks) {
  return (u64)((long long)x / nRanks);
}

template <class T, int N>
struct Accumulator {
  u64 sum[N];
  void set(const u64 (&x)[N], Inside) {
    for (int i = 0; i < N; i++) sum[i] = x[i];
  }
  void add(u32 op, const u64 (&x)[N], Inside) {
    for (int i = 0; i < N; i++) {
      const long long a = (long long)sum[i], b = (long long)x[i];
      sum[i] = op == MAX ? (u64)(a < b ? b : a) : op == MIN ? (u64)(b < a ? b : a) : sum[i] + x[i];
    }
  }
  void result(u64 (&x)[N]) {
    for (int i = 0; i < N; i++) x[i] = sum[i];
  }
};

template <class T>
u64 loadElements(const void* p, u32 bytes) {
  u64 x = 0;
  memcpy(&x, p, bytes < 8 ? bytes : 8);
  return x;
}
template <class T>
void storeElements(void* p, u64 x, u32 bytes) {
  memcpy(p, &x, bytes < 8 ? bytes : 8);
}

}  // namespace nccl4j
