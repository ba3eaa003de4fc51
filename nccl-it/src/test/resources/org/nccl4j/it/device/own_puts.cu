// A user's kernels that put to ranks of any host, get from them, signal them and wait for their signals.
#include "nccl4j_device.cuh"

using namespace nccl4j_device;

constexpr uint64_t kPatience = 20000000000ull;

struct OwnPut {
  uint32_t to, from, bytes, signal; // raised from 1 on; 0 for none
};

// Each block puts its share of a list to the next rank, and each put that raises a signal comes after
// the block's puts before it. A block waits for its signal from the rank before.
extern "C" __global__ void ownPuts(const nccl4jDeviceCommunicator* c, const nccl4jWindow* from,
                                   const nccl4jWindow* to, int count, int* failed, const OwnPut* puts,
                                   int round) {
  Gin gin(*c);
  const int next = (c->rank + 1) % c->nRanks;
  bool done = true;
  // The source is written by all threads of the block, as a kernel computes what it sends.
  for (int i = blockIdx.x; done && i < count; i += gridDim.x) {
    char* source = localPointer<char>(*from, puts[i].from);
    for (int b = threadIdx.x; b < puts[i].bytes; b += blockDim.x) source[b] ^= 0x5A;
    done = gin.put(CoopBlock(), next, *to, puts[i].to, *from, puts[i].from, puts[i].bytes,
                   (int)puts[i].signal - 1, kPatience);
  }
  done = done && gin.signal(CoopBlock(), next, blockIdx.x, kPatience);
  done = done && gin.waitSignal(CoopBlock(), blockIdx.x, round + 1, kPatience);
  done = done && gin.flush(CoopBlock(), kPatience) && gin.quiet(CoopBlock(), kPatience);
  if (!done) *failed = 1;
}

// Each block gets its share of a list from the next rank, whose kernel takes no part, and inverts what
// has come.
extern "C" __global__ void ownGets(const nccl4jDeviceCommunicator* c, const nccl4jWindow* from,
                                   const nccl4jWindow* to, int count, int* failed, const OwnPut* gets,
                                   int round) {
  Gin gin(*c);
  const int next = (c->rank + 1) % c->nRanks;
  bool done = true;
  for (int i = blockIdx.x; done && i < count; i += gridDim.x)
    done = gin.get(CoopBlock(), next, *from, gets[i].from, *to, gets[i].to, gets[i].bytes, kPatience);
  done = done && gin.flush(CoopBlock(), kPatience);
  for (int i = blockIdx.x; done && i < count; i += gridDim.x) {
    char* target = localPointer<char>(*to, gets[i].to);
    for (int b = threadIdx.x; b < gets[i].bytes; b += blockDim.x) target[b] ^= 0x5A;
  }
  if (!done) *failed = 1;
}

// An all-reduce of two ranks: each sends its numbers, and adds up what has come in the same kernel.
extern "C" __global__ void ownExchange(const nccl4jDeviceCommunicator* c, const nccl4jWindow* mine,
                                       const nccl4jWindow* theirs, int count, int* failed,
                                       float* sum, int round) {
  Gin gin(*c);
  const SymPtr<float> from(*mine);
  const SymPtr<float> to(*theirs);
  const int other = 1 - c->rank;
  const int signal = gridDim.x + blockIdx.x;
  const int part = (count + gridDim.x - 1) / gridDim.x;
  const int first = min(count, (int)blockIdx.x * part);
  const int number = min(count - first, part);
  bool done = gin.put(CoopBlock(), other, to + first, from + first, number, signal, kPatience);
  done = done && gin.waitSignal(CoopBlock(), signal, round + 1, kPatience);
  if (!done) {
    *failed = 1;
    return;
  }
  for (int i = first + threadIdx.x; i < first + number; i += blockDim.x)
    sum[i] = from.local()[i] + to.local()[i];
  if (!gin.quiet(CoopBlock(), kPatience)) *failed = 1;
}

// Waits for a signal that nobody raises.
extern "C" __global__ void ownVainWait(const nccl4jDeviceCommunicator* c, const nccl4jWindow*,
                                       const nccl4jWindow*, int signal, int* failed) {
  if (!Gin(*c).waitSignal(CoopBlock(), signal, 1ull << 40, 50000000ull)) *failed = 1;
}
