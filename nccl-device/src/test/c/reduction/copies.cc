// Runs the reductions of nccl4j_reduction.cuh on the host, for a type of which a conversion keeps nothing. One copy has to
// come out as it is, in packs of 16 bytes and by elements. Prints the bytes that were compared, or the first error.
#include <stdio.h>

#define __CUDACC__
#define __device__
#define __forceinline__ inline
#define __global__
#define __grid_constant__
#define __launch_bounds__(threads)
#define asm(...)
struct Dim {
  unsigned x;
};
static const Dim threadIdx{0}, blockIdx{0}, blockDim{1}, gridDim{1};
static float __uint_as_float(unsigned) { return 0; }
static unsigned __float_as_uint(float) { return 0; }
#include "nccl4j_reduction.cuh"

struct Lossy {
  unsigned char bits;
};

template <>
struct nccl4j_reduction::Element<Lossy> {
  typedef float Wide;
  static float widen(Lossy) { return 0; }
  static Lossy narrow(float) { return {0}; }
};

struct Second {
  float operator()(float, float b) const { return b; }
};

constexpr int kMost = 67, kGuard = 16;
alignas(16) static unsigned char from[2 * kMost + kGuard], to[kMost + 2 * kGuard];

// True if bytes from a place on come out right, and the others stay.
// counted: their number lies in memory
static bool isRight(int first, int count, unsigned copies, bool counted) {
  for (unsigned char& each : to) each = 0x77;
  nccl4jReductionArguments a = {};
  a.send = (unsigned long long)(from + first);
  a.recv = (unsigned long long)(to + first);
  const int third = count / 3;
  const long long all = count;
  if (counted) {
    a.wide = count % 3 != 0;
    a.counted = a.wide ? (unsigned long long)&all : (unsigned long long)&third;
    a.values = a.wide ? 1 : 3;
  } else {
    a.count = count;
  }
  a.copies = copies;
  nccl4j_reduction::reduce<Second, Lossy>(a);
  for (int i = 0; i < (int)sizeof to; i++) {
    const bool inside = i >= first && i < first + count;
    if (to[i] != (!inside ? 0x77 : copies == 1 ? from[i] : 0)) return false;
  }
  return true;
}

int main() {
  for (int i = 0; i < (int)sizeof from; i++) from[i] = (unsigned char)(i * 37 + 1);
  int compared = 0;
  for (unsigned copies = 1; copies <= 2; copies++)
    for (int first = 0; first < 2; first++)
      for (int count = 0; count <= kMost; count++) {
        for (int counted = 0; counted < 2; counted++) {
          if (!isRight(first, count, copies, counted)) {
            printf("%u copies of %d elements from %d on%s\n", copies, count, first, counted ? ", counted" : "");
            return 1;
          }
          compared += count;
        }
      }
  printf("%d\n", compared);
  return 0;
}
