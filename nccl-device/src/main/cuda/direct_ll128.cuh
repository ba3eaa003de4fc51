// As DirectLL, with lines of LL128: 128 bytes, of which 120 are data and the rest is the flag. Eight threads of a warp
// store a line in one instruction, and NVLink keeps it whole. So hardly more than the data cross the links, and no
// barrier comes before them. A warp moves four lines at a time, a group: see lines.cuh.
//
// The lines have memory of their own. In that of DirectLL, data of an old line could look like a line of LL.
#pragma once
#include "direct_ll.cuh"

namespace nccl4j {
namespace direct {

constexpr u32 kGroupData = NCCL4J_DIRECT_GROUP_DATA;
constexpr u32 kGroupBytes = NCCL4J_DIRECT_GROUP_BYTES;

// A thread's place in groups.
class GroupLane {
 public:
  __device__ __forceinline__ GroupLane() : line_(threadIdx.x % 32 / 8), eighth_(threadIdx.x % 8) {}

  // True if the second half of this thread's 16 bytes is the flag.
  __device__ __forceinline__ bool flagged() const { return eighth_ == 7; }
  __device__ __forceinline__ u32 bytes() const { return flagged() ? 8 : 16; }

  // Where its data lie in a group's, and where its 16 bytes lie in the group's lines.
  __device__ __forceinline__ u32 data() const { return flagged() ? 28 * 16 + line_ * 8 : (line_ * 7 + eighth_) * 16; }
  __device__ __forceinline__ u32 place() const { return threadIdx.x % 32 * 16; }

 private:
  u32 line_, eighth_;
};

// One operation, as the warps of all blocks move it.
template <class T, Received RECEIVED>
class GroupWork {
 public:
  // As the communicator's direct kernel of a number.
  __device__ __forceinline__ GroupWork(const nccl4jDirectArguments& a, u32 number)
      : a_(a),
        flow_(a, a.operation, a.root),
        half_(halfOf(a, number)),
        flag_(flagOf(number, a.comm.signature)),
        number_(number),
        groups_((u32)((a.bytes + kGroupData - 1) / kGroupData)),
        touch_(touchFor<T>(a.op)) {}

  // Groups from a number first on, each so many behind the one before. All lanes of a warp. Returns what this rank
  // keeps of the first.
  __device__ __forceinline__ Pack send(u32 first, u32 step) const {
    const int n = a_.comm.nRanks, rank = a_.comm.rank;
    Pack kept{0, 0};
#pragma unroll 1
    for (u32 group = first; group < groups_; group += step) {
      const Pack own = flow_.sends() ? mine(rank, group) : Pack{0, 0};
      if (group == first) kept = own;
#pragma unroll 1
      for (int d = 1; d < n; d++) {
        const int to = rank + d < n ? rank + d : rank + d - n;
        const bool data = flow_.has(rank, to);
        if (!data && group != 0) continue;
        Pack x = flow_.parts() && data ? mine(to, group) : own;
        if (lane_.flagged()) x.hi = flag_;
        __syncwarp();
        storePack(peer(a_, to, half_ + rank * a_.lineBytes) + linesOf(group), x);
      }
    }
    return kept;
  }

  // The same groups of all ranks; kept is what send has returned.
  __device__ __forceinline__ void receive(u32 first, u32 step, Pack kept) const {
    const int n = a_.comm.nRanks, rank = a_.comm.rank;
    const Inside inside = insideMean<T>(a_.op, n);
    Patience patience(a_.comm);
    bool dead = false;
#pragma unroll 1
    for (u32 group = first; group < groups_ && !dead; group += step) {
      if (group != first && flow_.sends()) kept = mine(rank, group);
      Accumulator<T, 2> sum;
#pragma unroll 1
      for (int from = 0; from < n; from++) {
        const bool data = flow_.has(from, rank);
        if (!data && (from == rank || group != 0)) continue;
        const Pack x = from == rank ? kept : await(from, group, patience, dead);
        if (!data) continue;
        const u64 words[2] = {x.lo, x.hi};
        if (!kCombined)
          store((char*)a_.recv + (flow_.severalCome() ? from * a_.bytes : 0), group, x);
        else if (from == 0)
          sum.set(words, inside);
        else
          sum.add(a_.op, words, inside);
      }
      if (group == first) admitWhenMet(a_.comm);
      if constexpr (kCombined) {
        if (!flow_.has(rank, rank)) continue;
        u64 words[2];
        sum.result(words);
        const Pack result{words[0], words[1]};
        store((char*)a_.recv, group, touch_.divide ? divided<T>(result, n) : result);
      }
    }
  }

 private:
  static constexpr bool kCombined = RECEIVED == Received::COMBINED;

  __device__ __forceinline__ u64 linesOf(u32 group) const { return (u64)group * kGroupBytes + lane_.place(); }

  // This lane's bytes of a group, 0 behind the end of the data.
  __device__ __forceinline__ u32 bytesOf(u64 at) const {
    return at >= a_.bytes ? 0 : (u32)min((u64)lane_.bytes(), a_.bytes - at);
  }

  // This rank's data for a rank.
  __device__ __forceinline__ Pack mine(int to, u32 group) const {
    const u64 at = (u64)group * kGroupData + lane_.data();
    const u32 bytes = bytesOf(at);
    const char* from = (const char*)a_.send + (flow_.parts() ? to * a_.bytes : 0) + at;
    Pack x{0, 0};
    if (bytes == 16 && ((u64)from & 15) == 0) {
      x = loadPack(from);
    } else if (bytes > 0) {
      x.lo = loadElements<T>(from, min(8u, bytes));
      if (bytes > 8) x.hi = loadElements<T>(from + 8, bytes - 8);
    }
    // Means of types that widen are scaled where they are combined; what travels is as the user has it.
    return kCombined && touch_.scale && !kWidens<T> ? scaled<T>(x, a_.comm.nRanks) : x;
  }

  __device__ __forceinline__ void store(char* base, u32 group, Pack x) const {
    const u64 at = (u64)group * kGroupData + lane_.data();
    const u32 bytes = bytesOf(at);
    char* to = base + at;
    if (bytes == 16 && ((u64)to & 15) == 0) {
      storeData(to, x);
    } else if (bytes > 0) {
      storeElements<T>(to, x.lo, min(8u, bytes));
      if (bytes > 8) storeElements<T>(to + 8, x.hi, bytes - 8);
    }
  }

  // Waits for a group of a rank.
  __device__ __forceinline__ Pack await(int from, u32 group, Patience& patience, bool& dead) const {
    const char* lines = own(a_, half_ + from * a_.lineBytes) + linesOf(group);
    Pack x;
    auto late = [&] {
      __syncwarp();
      x = loadPack(lines);
      return lane_.flagged() && x.hi != flag_;
    };
    u32 looks = 0;
    for (bool mine = late(); __any_sync(~0u, mine) && !dead; mine = late()) {
      dead = __any_sync(~0u, mine && patience.exhausted(from, blockIdx.x, (u64)number_, flag_, x.hi));
      if (++looks > kEagerLines) __nanosleep(kLinePause);
    }
    return x;
  }

  const nccl4jDirectArguments& a_;
  const GroupLane lane_;
  const Flow flow_;
  const u64 half_, flag_;  // half: offset of rank 0's part of what is written now
  const u32 number_, groups_;
  const Touch touch_;
};

template <class T, Received RECEIVED>
__device__ __forceinline__ void ll128(const nccl4jDirectArguments& a) {
  begin(a);
  const u32 number = epoch(a);
  const GroupWork<T, RECEIVED> work(a, number);
  const u32 warps = blockDim.x / 32, first = blockIdx.x * warps + threadIdx.x / 32;
  const Pack kept = work.send(first, gridDim.x * warps);
  work.receive(first, gridDim.x * warps, kept);
  finish(a, number);
}

}  // namespace direct
}  // namespace nccl4j
