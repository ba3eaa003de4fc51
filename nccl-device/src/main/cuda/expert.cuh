// Common code of the kernels for experts: views of the ranks' fixed buffers, flags of blocks, copies of rows.
//
// A block works with the same block of all other ranks: token t of every rank belongs to block t % gridDim.x.
// So a block needs flags of one block of each rank only, and no block waits for another of its own rank.
#pragma once
#include "expert_layout.h"
#include "launch.cuh"
#include "memory.cuh"
#include "types.h"
#include "wait.cuh"

namespace nccl4j {
namespace experts {

constexpr int kThreads = NCCL4J_EXPERT_THREADS;
constexpr u32 kNobody = ~0u;

// Warps that wait for data pause after so many looks. Looks of all blocks without a pause can keep the stores that
// they wait for out of the cache.
constexpr u32 kEagerLooks = 8;
constexpr u32 kPause = 500;  // nanoseconds

// failedKind: an expert that does not exist, by its entry and number in failedStep; outputs that have fewer
// rows, above, than were received, below; a result that has fewer rows than tokens were dispatched.
constexpr u32 kInvalidExpert = 4;
constexpr u32 kFewOutputs = 5;
constexpr u32 kFewResults = 9;

// The form of tokens on their way.
enum class Wire { SAME, FP8 };

__device__ __forceinline__ char* peer(const nccl4jExpertArguments& a, int rank, u64 offset) {
  return (char*)(a.window + (u64)rank * a.stride + offset);
}

__device__ __forceinline__ char* own(const nccl4jExpertArguments& a, u64 offset) {
  return peer(a, a.comm.rank, offset);
}

__device__ __forceinline__ nccl4jExpertState* state(const nccl4jExpertArguments& a) {
  return (nccl4jExpertState*)a.state + blockIdx.x;
}

__device__ __forceinline__ u64* listOf(const nccl4jExpertArguments& a) {
  return (u64*)a.lists + blockIdx.x * a.listCapacity;
}

// The place of a token of a rank in the staging areas.
__device__ __forceinline__ u64 stagedAt(const nccl4jExpertArguments& a, u64 half, int source, u32 token) {
  return a.tokens + ((half * a.comm.nRanks + source) * a.maxTokens + token) * a.stagedRow;
}

// The place of a flag of this block that a rank writes.
__device__ __forceinline__ u64 flagOf(u64 flags, int writer) {
  return flags + 8ull * (NCCL4J_EXPERT_RANKS * blockIdx.x + writer);
}

// Tells all ranks that this block's stores into their buffers are done. All threads.
__device__ __forceinline__ void tellAll(const nccl4jExpertArguments& a, u64 flags, u64 number) {
  __syncthreads();
  if (threadIdx.x < (u32)a.comm.nRanks)
    storeWordRelease(peer(a, threadIdx.x, flagOf(flags, a.comm.rank)), number);
}

// Waits for the same block of all ranks. All threads.
__device__ __forceinline__ void awaitAll(const nccl4jExpertArguments& a, u64 flags, u64 number) {
  if (threadIdx.x < (u32)a.comm.nRanks) {
    const char* flag = own(a, flagOf(flags, threadIdx.x));
    Patience patience(a.comm);
    while (loadWordAcquire(flag) < number)
      if (patience.exhausted(threadIdx.x, blockIdx.x, 0, number)) break;
  }
  __syncthreads();
}

// The rank at a place of the order in which this rank sends: the next first and itself last, so that at any time
// the ranks send to different ones.
__device__ __forceinline__ u32 inTurn(const nccl4jExpertArguments& a, u32 place) {
  const u32 rank = a.comm.rank + 1 + place;
  return rank < (u32)a.comm.nRanks ? rank : rank - a.comm.nRanks;
}

// The tokens of a rank that belong to this block.
__device__ __forceinline__ u32 tokensOfBlock(u32 count) {
  return blockIdx.x < count ? (count - blockIdx.x + gridDim.x - 1) / gridDim.x : 0;
}

// A share of a row: several warps copy each row where there are more warps than rows.
struct Share {
  u32 part, parts;

  __device__ __forceinline__ u32 first() const { return part * 32 + (threadIdx.x & 31); }
  __device__ __forceinline__ u32 step() const { return parts * 32; }
};

// Named barriers of a block: of a crew, and of all warps until the rows are known.
constexpr int kCrewBarrier = 1;
constexpr int kRowsBarrier = 2;

// Warps of a block, one behind the other, that do some work beside the others.
struct Crew {
  u32 firstWarp, warps;

  __device__ __forceinline__ u32 warp() const { return threadIdx.x / 32 - firstWarp; }
  __device__ __forceinline__ bool mine() const { return warp() < warps; }  // of a warp in front it is larger
  __device__ __forceinline__ u32 threads() const { return warps * 32; }
  __device__ __forceinline__ u32 thread() const { return threadIdx.x - firstWarp * 32; }
  // Of one crew of a block at most.
  __device__ __forceinline__ void sync() const { barrierSync(kCrewBarrier, threads()); }
};

// Copies a warp's share of a row. Bytes are a multiple of 16.
__device__ __forceinline__ void copyRow(char* to, const char* from, u32 bytes, Share share) {
  constexpr u32 kFlights = 4;
  const u32 step = share.step() * 16;
  u32 at = share.first() * 16;
  for (; at + (kFlights - 1) * step < bytes; at += kFlights * step) {
    Pack x[kFlights];
#pragma unroll
    for (u32 f = 0; f < kFlights; f++) x[f] = loadData(from + at + f * step);
#pragma unroll
    for (u32 f = 0; f < kFlights; f++) storeData(to + at + f * step, x[f]);
  }
  for (; at < bytes; at += step) storeData(to + at, loadData(from + at));
}

// Calls f(item, share) for this warp's shares of the rows of a list, until f returns false. Whether it did not.
template <class F>
__device__ __forceinline__ bool forRows(const u64* rows, u32 listed, F f) {
  const u32 warps = blockDim.x / 32;
  const u32 parts = listed == 0 ? 1 : max(1u, warps / listed);
  for (u32 i = threadIdx.x / 32; i < listed * parts; i += warps)
    if (!f(rows[i / parts], Share{i % parts, parts})) return false;
  return true;
}

// Elements of a Pack.
template <class T>
union Elements {
  Pack pack;
  T at[16 / sizeof(T)];
  __device__ Elements() : pack{0, 0} {}
};

}  // namespace experts
}  // namespace nccl4j
