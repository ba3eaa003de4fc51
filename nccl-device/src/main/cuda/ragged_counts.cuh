// Counts of exchanges whose counts only the device knows. Each rank sends its counts to all ranks, as lines of LL with
// the number of the call. So every rank has the counts of all and computes where elements lie. All ranks find the same
// errors in the counts, before an element is stored where the user sees it.
//
// The lines have two halves, of which calls take turns. A rank writes into a half again two calls later. By then it has
// received the counts of the call between from all ranks, which have ended the one before.
#pragma once
#include "launch.cuh"
#include "ragged_layout.h"
#include "wait.cuh"

namespace nccl4j {
namespace ragged {

constexpr int kThreads = NCCL4J_RAGGED_THREADS;
constexpr u32 kRanks = NCCL4J_RAGGED_RANKS;

// Threads that wait for lines pause after so many looks, since looks without a pause delay the stores they wait for.
constexpr u32 kEagerLooks = 16;
constexpr u32 kPause = 500;  // nanoseconds

// failedKind, with the number of elements in failedStep: a count below 0 or above maxCount, of failedPeer for
// failedChannel; a rank that sends more than its buffer has; a rank that receives more than maxReceived; a count of
// failedPeer for failedChannel in a reduce-scatter, of which rank 0 has another.
constexpr u32 kInvalidCount = 6;
constexpr u32 kSendsMore = 7;
constexpr u32 kReceivesMore = 8;
constexpr u32 kCountsDiffer = 10;

struct Shared {
  u64 counts[kRanks][kRanks];  // from the first rank to the second
  u64 room[kRanks];            // elements of each rank's send buffer
  u64 own[kRanks];             // this rank's count for each rank
  u64 from[kRanks];            // the first element for each rank in the send buffer
  u64 to[kRanks];              // the place of this rank's first element in each rank's received elements
  u64 ahead[kRanks];           // this rank's received elements of the ranks in front of each
  u32 sent[kRanks];            // lines to the ranks of the first turns, up to each
  u32 taken[kRanks];           // lines from those
};

__device__ __forceinline__ char* peer(const nccl4jRaggedArguments& a, u32 rank, u64 offset) {
  return (char*)(a.window + rank * a.stride + offset);
}

__device__ __forceinline__ char* own(const nccl4jRaggedArguments& a, u64 offset) {
  return peer(a, a.comm.rank, offset);
}

// The rank that this one sends to in a turn, itself in the last: at any time the ranks send to different ones.
__device__ __forceinline__ u32 targetOf(const nccl4jRaggedArguments& a, u32 turn) {
  const u32 n = a.comm.nRanks, rank = a.comm.rank + 1 + turn;
  return rank < n ? rank : rank - n;
}

// The rank that sends to this one in a turn.
__device__ __forceinline__ u32 sourceOf(const nccl4jRaggedArguments& a, u32 turn) {
  const u32 n = a.comm.nRanks, rank = a.comm.rank + n - 1 - turn;
  return rank < n ? rank : rank - n;
}

// True if so many elements of a rank for another go in lines. Both ranks know the count, so they agree.
__device__ __forceinline__ bool inLines(const nccl4jRaggedArguments& a, u64 count) {
  return count * a.elementBytes <= a.lineBytes;
}

__device__ __forceinline__ u32 linesOf(const nccl4jRaggedArguments& a, u64 count) {
  return inLines(a, count) ? (u32)(count * a.elementBytes + 7) / 8 : 0;
}

// Waits for lines of one call.
class Lines {
 public:
  __device__ __forceinline__ Lines(const nccl4jRaggedArguments& a, u64 number)
      : flags((u32)number, a.signature), patience_(a.comm) {}

  // Returns the data of a line as it was loaded, or as soon as it comes. Of no value if dead().
  __device__ __forceinline__ u64 await(uint4 v, const char* line, u32 source) {
    for (u32 looks = 0; !flags.match(v) && !dead_; v = loadLine(line)) {
      if (++looks > kEagerLooks) __nanosleep(kPause);
      dead_ = patience_.exhausted(source, blockIdx.x, 0, flags.step, [&] { return flags.unlike(v); });
    }
    return (u64)v.z << 32 | v.x;
  }

  // True if the communicator has failed. Then no wait goes on.
  __device__ __forceinline__ bool dead() const { return dead_; }

  const LineFlags flags;

 private:
  Patience patience_;
  bool dead_ = false;
};

// The offset of a line of counts in a rank's window.
__device__ __forceinline__ u64 countedAt(const nccl4jRaggedArguments& a, u64 half, u32 source, u32 item) {
  return a.counted + 16 * ((half * a.comm.nRanks + source) * (a.comm.nRanks + 1) + item);
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
__device__ __forceinline__ void tellCounts(const nccl4jRaggedArguments& a, const Shared& s, u64 half,
                                           LineFlags flags) {
  const u32 n = a.comm.nRanks, items = n + 1;
  for (u32 i = threadIdx.x; i < n * items; i += blockDim.x) {
    const u32 item = i % items;
    storeLine(peer(a, targetOf(a, i / items), countedAt(a, half, a.comm.rank, item)),
              item == n ? a.sendElements : s.own[item], flags);
  }
}

// Loads this rank's counts, and the first block sends them. The call itself may write where they lie, once the first
// block has sent them: then the other blocks take what that has sent. False if the counts are not allowed: no element
// may be sent. All threads.
__device__ __forceinline__ bool knowOwn(const nccl4jRaggedArguments& a, Shared& s, u64 half, Lines& lines) {
  const u32 n = a.comm.nRanks, me = a.comm.rank, i = threadIdx.x;
  if (i < n) {
    if (blockIdx.x == 0 || a.keepsCounts) {
      s.own[i] = loadCount(a, a.counts, a.gathers ? 0 : i);
    } else {
      const char* line = own(a, countedAt(a, half, me, i));
      s.own[i] = lines.await(loadLine(line), line, me);
    }
  }
  __syncthreads();
  if (blockIdx.x == 0) tellCounts(a, s, half, lines.flags);
  bool wrong = lines.dead();
  if (i < n) {
    u64 all = 0, from = 0;
    u32 sent = 0;
    for (u32 other = 0; other < n; other++) {
      if (other == i) from = all;
      all += s.own[other];
      wrong |= s.own[other] > a.maxCount;
      if (other <= i && other < n - 1) sent += linesOf(a, s.own[targetOf(a, other)]);
    }
    s.from[i] = a.gathers ? 0 : from;
    s.sent[i] = sent;
    wrong |= (a.gathers ? s.own[0] : all) > a.sendElements;
  }
  return !__syncthreads_or(wrong);
}

// Waits for the counts of all ranks. False if the communicator has failed. All threads.
__device__ __forceinline__ bool awaitCounts(const nccl4jRaggedArguments& a, Shared& s, u64 half, Lines& lines) {
  const u32 n = a.comm.nRanks, items = n + 1;
  for (u32 i = threadIdx.x; i < n * items && !lines.dead(); i += blockDim.x) {
    const u32 source = i / items, item = i % items;
    const char* line = own(a, countedAt(a, half, source, item));
    const u64 data = lines.await(loadLine(line), line, source);
    if (item == n)
      s.room[source] = data;
    else
      s.counts[source][item] = data;
  }
  return !__syncthreads_or(lines.dead());
}

// True if a rank's count for a rank is not allowed.
__device__ __forceinline__ bool isInvalid(const nccl4jRaggedArguments& a, u64 count) { return count > a.maxCount; }

// True if ranks would combine parts of different lengths.
__device__ __forceinline__ bool differs(const nccl4jRaggedArguments& a, const Shared& s, u32 source, u32 target) {
  return a.combines && s.counts[source][target] != s.counts[0][target];
}

// Reports the first error in the counts. One thread.
__device__ __noinline__ void refuse(const nccl4jRaggedArguments& a, const Shared& s) {
  nccl4jControl* control = (nccl4jControl*)a.comm.control;
  const int n = a.comm.nRanks;
  for (int source = 0; source < n; source++)
    for (int target = 0; target < n; target++) {
      const u64 count = s.counts[source][target];
      if (isInvalid(a, count)) return fail(control, source, target, kInvalidCount, count);
      if (differs(a, s, source, target)) return fail(control, source, target, kCountsDiffer, count);
    }
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
  for (u32 i = threadIdx.x; i < n * n; i += blockDim.x)
    wrong |= isInvalid(a, s.counts[i / n][i % n]) || differs(a, s, i / n, i % n);
  u64 ahead = 0;  // received elements of the ranks in front of this thread's
  if (!__syncthreads_or(wrong)) {
    if (rank < n) {
      u64 sent = 0, received = 0, to = 0;
      u32 taken = 0;
      for (u32 other = 0; other < n; other++) {
        if (other == me) to = received;
        received += s.counts[other][rank];
        sent = a.gathers ? s.counts[rank][0] : sent + s.counts[rank][other];
        if (other < rank) ahead += s.counts[other][me];
        if (other <= rank && other < n - 1) taken += linesOf(a, s.counts[sourceOf(a, other)][me]);
      }
      s.to[rank] = to;
      s.ahead[rank] = ahead;
      s.taken[rank] = taken;
      wrong = sent > s.room[rank] || received > a.maxReceived;
    }
    if (!__syncthreads_or(wrong)) {
      if (blockIdx.x == 0 && rank < n) {
        const u64 count = s.counts[rank][me];
        storeCount(a, a.receivedCounts, rank, count);
        storeCount(a, a.receivedOffsets, rank, a.combines ? 0 : ahead);
        if (rank == n - 1) storeCount(a, a.receivedOffsets, n, a.combines ? count : ahead + count);
      }
      return true;
    }
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) refuse(a, s);
  return false;
}

}  // namespace ragged
}  // namespace nccl4j
