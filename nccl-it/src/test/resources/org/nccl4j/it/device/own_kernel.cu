// A user's own all-reduce: every rank reads its part of all send windows and writes the sum to all
// receive windows. Compiled by the example with nvcc -I DIR, after ./nccl device-headers DIR.
#include "nccl4j_device.cuh"

using namespace nccl4j_device;

constexpr uint64_t kPatience = 5000000000ull;

extern "C" __global__ void ownAllReduce(const nccl4jDeviceCommunicator* c, const nccl4jWindow* send,
                                        const nccl4jWindow* recv, int count, int* failed) {
  const Team team = teamLsa(*c);
  LsaBarrier<CoopBlock> barrier(CoopBlock(), *c, blockIdx.x);
  if (!__syncthreads_and(barrier.sync(kPatience))) {
    *failed = 1;
    return;
  }
  const int part = (count + team.size - 1) / team.size;
  const int end = min(count, (team.place + 1) * part);
  for (int i = team.place * part + blockIdx.x * blockDim.x + threadIdx.x; i < end;
       i += gridDim.x * blockDim.x) {
    float sum = 0;
    for (int p = 0; p < team.size; p++) sum += peerPointer<float>(*send, p)[i];
    for (int p = 0; p < team.size; p++) peerPointer<float>(*recv, p)[i] = sum;
  }
  if (!__syncthreads_and(barrier.sync(kPatience))) *failed = 1;
}

#if __CUDA_ARCH__ >= 900 || !defined(__CUDA_ARCH__)
// The same in one window, by the switch: every rank reads its part of all windows combined and
// stores it to all at once. count is a multiple of 4.
extern "C" __global__ void ownMultimemAllReduce(const nccl4jDeviceCommunicator* c,
                                                const nccl4jWindow* data, const nccl4jWindow*,
                                                int count, int* failed) {
  const Team team = teamLsa(*c);
  LsaBarrier<CoopBlock> before(CoopBlock(), *c, blockIdx.x);
  float* all = multimemPointer<float>(*data);
  if (!__syncthreads_and(before.sync(kPatience)) || all == nullptr) {
    *failed = 1;
    return;
  }
  const int part = (count / 4 + team.size - 1) / team.size;
  const int end = min(count / 4, (team.place + 1) * part);
  for (int i = team.place * part + blockIdx.x * blockDim.x + threadIdx.x; i < end;
       i += gridDim.x * blockDim.x) {
    float4 v;
    asm volatile("multimem.ld_reduce.relaxed.sys.global.add.v4.f32 {%0,%1,%2,%3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "l"(all + 4 * i)
                 : "memory");
    asm volatile("multimem.st.relaxed.sys.global.v4.f32 [%0], {%1,%2,%3,%4};" ::"l"(all + 4 * i),
                 "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w)
                 : "memory");
  }
  LsaBarrier<CoopBlock> after(CoopBlock(), *c, blockIdx.x);
  if (!__syncthreads_and(after.sync(kPatience))) *failed = 1;
}
#endif

// The same as the first in one window, with typed pointers, the sums and copies of the header, and a
// barrier that the blocks share: each rank's part lies where it adds it up. count is a multiple of
// the ranks.
extern "C" __global__ void ownAllReduceInPlace(const nccl4jDeviceCommunicator* c,
                                               const nccl4jWindow* data, const nccl4jWindow*,
                                               int count, int* failed) {
  const SymPtr<float> all(*data);
  const size_t part = count / all.team();
  const SymPtr<float> mine = all + all.place() * part;
  GridBarrier barrier(*c, 0);
  if (!barrier.sync(kPatience)) {
    *failed = 1;
    return;
  }
  reduceScatter(CoopGrid(), mine.local(), all, part);
  if (!barrier.sync(kPatience)) { // the blocks' parts of the sum are there
    *failed = 1;
    return;
  }
  copyToAll(CoopGrid(), mine, mine.local(), part);
  LsaBarrier<CoopBlock> after(CoopBlock(), *c, blockIdx.x, /*multimem=*/true);
  if (!__syncthreads_and(after.sync(kPatience))) *failed = 1;
}

struct OwnCopy {
  uint32_t to, from, bytes, pad;
};

// Copies from the next rank's window into this rank's other window, at any offsets.
extern "C" __global__ void ownCopies(const nccl4jDeviceCommunicator* c, const nccl4jWindow* from,
                                     const nccl4jWindow* to, int count, int* failed,
                                     const OwnCopy* copies) {
  GridBarrier barrier(*c, 1);
  if (!barrier.sync(kPatience)) {
    *failed = 1;
    return;
  }
  const SymPtr<char> source(*from);
  const int next = (source.place() + 1) % source.team();
  for (int i = blockIdx.x; i < count; i += gridDim.x)
    copy(CoopBlock(), localPointer<char>(*to, copies[i].to), source.peer(next) + copies[i].from,
         copies[i].bytes);
  barrier.arrive(Order::relaxed);
  if (!barrier.wait(kPatience, Order::relaxed)) *failed = 1;
}

// The same as the first for up to c->slots pairs of floats by lines of data and flags, in any memory.
extern "C" __global__ void ownSmallAllReduce(const nccl4jDeviceCommunicator* c, const float2* send,
                                             float2* recv, int pairs, int* failed) {
  const Team team = teamLsa(*c);
  LLAllToAll lines(*c);
  for (int i = threadIdx.x; i < pairs; i += blockDim.x) {
    float2 own = send[i];
    uint64_t bits = (uint64_t)__float_as_uint(own.y) << 32 | __float_as_uint(own.x);
    for (int p = 0; p < team.size; p++)
      if (p != team.place) lines.send(p, i, bits);
    float2 sum = {0, 0};
    for (int p = 0; p < team.size; p++) {
      float2 x = own;
      uint64_t theirs;
      if (p != team.place) {
        if (!lines.recv(p, i, theirs, kPatience)) *failed = 1;
        x = {__uint_as_float((uint32_t)theirs), __uint_as_float((uint32_t)(theirs >> 32))};
      }
      sum.x += x.x;
      sum.y += x.y;
    }
    recv[i] = sum;
  }
  lines.endEpoch();
}
