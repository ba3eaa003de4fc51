// Exchanges whose counts only the device knows: ragged all-to-all and all-gather, one kernel each.
//
// Each rank sends its counts to all ranks, as lines of LL with the number of the call. So every rank has the counts of
// all and computes where its elements go in each other rank's memory: behind those of the ranks in front of it. It
// stores them there directly. A block then tells the same block of all ranks that its stores are done. All ranks find
// the same errors in the counts, before anything is stored.
//
// A rank's counts also say that its received elements may be overwritten: it has reached this call. Its lines are
// those of the last call, which all blocks of all ranks have read: they read them before they told it of their stores.
#pragma once
#include <type_traits>

#include "launch.cuh"
#include "ragged_layout.h"
#include "unaligned.cuh"
#include "wait.cuh"

namespace nccl4j {
namespace ragged {

constexpr int kThreads = 512;
constexpr u32 kRanks = NCCL4J_RAGGED_RANKS;

// Signatures of the calls in lines.
constexpr u32 kToAllSignature = 1;
constexpr u32 kGatherSignature = 2;

// Threads that wait for counts pause after so many looks, since looks without a pause delay the stores they wait for.
constexpr u32 kEagerLooks = 64;
constexpr u32 kPause = 100;  // nanoseconds

// failedKind, with the number of elements in failedStep: a count below 0 or above maxCount, of failedPeer for
// failedChannel; a rank that sends more than its buffer has; a rank that receives more than maxReceived.
constexpr u32 kInvalidCount = 6;
constexpr u32 kSendsMore = 7;
constexpr u32 kReceivesMore = 8;

struct Shared {
  u64 counts[kRanks][kRanks];  // from the first rank to the second
  u64 room[kRanks];            // elements of each rank's send buffer
  u64 from[kRanks];            // the first element for each rank in the send buffer
  u64 to[kRanks];              // the place of this rank's first element in each rank's received elements
};

__device__ __forceinline__ char* peer(const nccl4jRaggedArguments& a, u32 rank, u64 offset) {
  return (char*)(a.window + rank * a.stride + offset);
}

__device__ __forceinline__ char* own(const nccl4jRaggedArguments& a, u64 offset) {
  return peer(a, a.comm.rank, offset);
}

__device__ __forceinline__ u64 loadCount(const nccl4jRaggedArguments& a, u64 from, u32 i) {
  return a.wide ? (u64)((const long long*)from)[i] : (u64)(long long)((const int*)from)[i];
}

__device__ __forceinline__ void storeCount(const nccl4jRaggedArguments& a, u64 to, u32 i, u64 count) {
  if (a.wide)
    ((u64*)to)[i] = count;
  else
    ((u32*)to)[i] = (u32)count;
}

// Sends the counts to all ranks. All threads of one block.
__device__ __forceinline__ void tellCounts(const nccl4jRaggedArguments& a, LineFlags flags) {
  const u32 n = a.comm.nRanks, items = n + 1;
  for (u32 i = threadIdx.x; i < n * items; i += blockDim.x) {
    const u32 target = i / items, item = i % items;
    const u64 data = item == n ? a.sendElements : loadCount(a, a.counts, a.gathers ? 0 : item);
    storeLine(peer(a, target, a.lines + 16ull * (a.comm.rank * items + item)), data, flags);
  }
}

// Waits for the counts of all ranks. False if the communicator has failed. All threads.
__device__ __forceinline__ bool awaitCounts(const nccl4jRaggedArguments& a, Shared& s, u64 number, LineFlags flags) {
  const u32 n = a.comm.nRanks, items = n + 1;
  Patience patience(a.comm);
  bool dead = false;
  for (u32 i = threadIdx.x; i < n * items && !dead; i += blockDim.x) {
    const u32 source = i / items, item = i % items;
    const char* line = own(a, a.lines + 16ull * i);
    uint4 v;
    for (u32 looks = 0; !flags.match(v = loadLine(line)); looks++) {
      if (looks > kEagerLooks) __nanosleep(kPause);
      auto unlike = [&] { return flags.unlike(v); };
      if (dead = patience.exhausted(source, blockIdx.x, 0, number, unlike); dead) break;
    }
    const u64 data = (u64)v.z << 32 | v.x;
    if (item == n)
      s.room[source] = data;
    else
      s.counts[source][item] = data;
  }
  return !__syncthreads_or(dead);
}

// Reports the first error in the counts. One thread.
__device__ __noinline__ void refuse(const nccl4jRaggedArguments& a, const Shared& s) {
  nccl4jControl* control = (nccl4jControl*)a.comm.control;
  const int n = a.comm.nRanks;
  for (int source = 0; source < n; source++)
    for (int target = 0; target < n; target++)
      if (s.counts[source][target] > a.maxCount)
        return fail(control, source, target, kInvalidCount, s.counts[source][target]);
  for (int rank = 0; rank < n; rank++) {
    u64 sent = 0, received = 0;
    for (int other = 0; other < n; other++) {
      sent = a.gathers ? s.counts[rank][0] : sent + s.counts[rank][other];
      received += s.counts[other][rank];
    }
    if (sent > s.room[rank]) return fail(control, rank, 0, kSendsMore, sent);
    if (received > a.maxReceived) return fail(control, rank, 0, kReceivesMore, received);
  }
}

// Finds where elements lie, and stores the counts and offsets of those received. False, on all ranks, if some counts
// are not allowed. All threads.
__device__ __forceinline__ bool findPlaces(const nccl4jRaggedArguments& a, Shared& s) {
  const u32 n = a.comm.nRanks, me = a.comm.rank, rank = threadIdx.x;
  bool wrong = false;
  for (u32 i = threadIdx.x; i < n * n; i += blockDim.x) wrong |= s.counts[i / n][i % n] > a.maxCount;
  u64 ahead = 0;  // received elements of the ranks in front of this thread's
  if (!__syncthreads_or(wrong)) {
    if (rank < n) {
      u64 sent = 0, received = 0, from = 0, to = 0;
      for (u32 other = 0; other < n; other++) {
        if (other == me) to = received;
        received += s.counts[other][rank];
        sent = a.gathers ? s.counts[rank][0] : sent + s.counts[rank][other];
        if (other < rank) {
          from += a.gathers ? 0 : s.counts[me][other];
          ahead += s.counts[other][me];
        }
      }
      s.from[rank] = from;
      s.to[rank] = to;
      wrong = sent > s.room[rank] || received > a.maxReceived;
    }
    if (!__syncthreads_or(wrong)) {
      if (blockIdx.x == 0 && rank < n) {
        const u64 count = s.counts[rank][me];
        storeCount(a, a.receivedCounts, rank, count);
        storeCount(a, a.receivedOffsets, rank, ahead);
        if (rank == n - 1) storeCount(a, a.receivedOffsets, n, ahead + count);
      }
      return true;
    }
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) refuse(a, s);
  return false;
}

// Copies bytes to some places that begin at the same place of a pack, by all blocks of the kernel. The first block
// takes the first packs of turn 0, the second those of turn 1, so that few bytes of several turns have a block each.
template <class To>
__device__ __forceinline__ void copyPart(const char* from, u64 bytes, u32 turn, u32 targets, To to) {
  const u64 thread = (u64)((blockIdx.x + gridDim.x - turn % gridDim.x) % gridDim.x) * blockDim.x + threadIdx.x;
  const u64 step = 16ull * gridDim.x * blockDim.x;
  const WholePacks packs = wholePacks((u64)to(0), 0, bytes);
  u64 at = packs.begin + 16 * thread;
  auto loop = [&](auto flights) {
    constexpr int N = decltype(flights)::value;
    for (; at + (N - 1) * step < packs.end; at += N * step) {
      Pack x[N];
      loadAnywhere(x, from, N, loadData, [&](int i) { return at + i * step; });
#pragma unroll 1
      for (u32 t = 0; t < targets; t++) {
        char* target = to(t) + at;
#pragma unroll
        for (int i = 0; i < N; i++) storeData(target + i * step, x[i]);
      }
    }
  };
  loop(std::integral_constant<int, 4>());
  loop(std::integral_constant<int, 1>());
  const u64 edge = edgeAt(packs, 0, bytes, thread, 1);
  if (edge >= bytes) return;
  const uint8_t byte = *(const volatile uint8_t*)(from + edge);
  for (u32 t = 0; t < targets; t++) *(volatile uint8_t*)(to(t) + edge) = byte;
}

// Stores this rank's elements into the memory of all ranks: the next rank's first and its own last, so that at any
// time the ranks store to different ones. All threads.
__device__ __forceinline__ void sendElements(const nccl4jRaggedArguments& a, const Shared& s) {
  const u32 n = a.comm.nRanks, next = a.comm.rank + 1;
  auto inTurn = [&](u32 turn) { return next + turn < n ? next + turn : next + turn - n; };
  auto target = [&](u32 turn) {
    const u32 rank = inTurn(turn);
    return peer(a, rank, a.received) + s.to[rank] * a.elementBytes;
  };
  if (a.gathers) {
    copyPart((const char*)a.send, s.counts[a.comm.rank][0] * a.elementBytes, 0, n, target);
    return;
  }
#pragma unroll 1
  for (u32 turn = 0; turn < n; turn++) {
    const u32 rank = inTurn(turn);
    copyPart((const char*)a.send + s.from[rank] * a.elementBytes, s.counts[a.comm.rank][rank] * a.elementBytes, turn,
             1, [&](u32) { return target(turn); });
  }
}

__device__ __forceinline__ void storeWordRelease(void* p, u64 v) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}

// Tells the same block of all ranks that this block's stores are done, and waits for theirs. All threads.
__device__ __forceinline__ void meetAtEnd(const nccl4jRaggedArguments& a, u64 number) {
  auto flag = [&](u32 writer) { return a.flags + 8ull * (kRanks * blockIdx.x + writer); };
  __syncthreads();
  const u32 other = threadIdx.x;
  if (other < (u32)a.comm.nRanks) {
    storeWordRelease(peer(a, other, flag(a.comm.rank)), number);
    Patience patience(a.comm);
    while (loadWordAcquire(own(a, flag(other))) < number)
      if (patience.exhausted(other, blockIdx.x, 0, number)) break;
  }
  __syncthreads();
}

__device__ __forceinline__ void exchange(const nccl4jRaggedArguments& a) {
  __shared__ Shared s;
  awaitPredecessor();
  admitSuccessor();
  u64* calls = (u64*)a.calls + blockIdx.x;
  const u64 number = *calls + 1;
  const LineFlags flags((u32)number, a.gathers ? kGatherSignature : kToAllSignature);
  if (blockIdx.x == 0) tellCounts(a, flags);
  if (!awaitCounts(a, s, number, flags) || !findPlaces(a, s)) return;
  sendElements(a, s);
  meetAtEnd(a, number);
  if (threadIdx.x == 0) *calls = number;
}

}  // namespace ragged
}  // namespace nccl4j
