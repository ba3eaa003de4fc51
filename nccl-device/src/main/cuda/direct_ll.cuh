// A single flight: every rank writes its data for another as lines of 8 bytes of data and 8 of flags
// into that rank's part of the library's own window, and polls its own part. For small data, in any
// memory.
//
// Two halves are used in turn. A rank writes into a half again two kernels later. By then it has received
// all lines of the kernel between. So every other rank has begun that kernel, and has ended the one
// before. For this every rank writes a line to every other: in operations with a root, two ranks
// without data for each other exchange an empty line.
#pragma once
#include "direct.cuh"

namespace nccl4j {
namespace direct {

// Looks at a line without pauses, and nanoseconds between further ones. In a group of 40 operations on 2 H200 tens of
// thousands of threads looked all the time, and for half a millisecond the stores they waited for did not come in.
constexpr u32 kEagerLines = 16;
constexpr u32 kLinePause = 500;

// Waits for a line and returns its data.
__device__ __forceinline__ u64 awaitLine(const nccl4jDirectArguments& a, const char* line, int from,
                                         LineFlags flags) {
  uint4 v = loadLine(line);
  if (flags.match(v)) return (u64)v.z << 32 | v.x;
  Patience patience(a.comm);
  u32 looks = 0;
  do {
    if (patience.exhausted(from, blockIdx.x, 0, flags.step, [&] { return flags.unlike(v); })) break;
    if (++looks > kEagerLines) __nanosleep(kLinePause);
    v = loadLine(line);
  } while (!flags.match(v));
  return (u64)v.z << 32 | v.x;
}

// The use of the elements of all ranks: a kernel stores or combines them.
enum class Received { STORED, COMBINED };

// The ranks that get data of each.
class Flow {
 public:
  __device__ __forceinline__ Flow(const nccl4jDirectArguments& a, u32 operation, u32 root)
      : rank_(a.comm.rank),
        root_((int)root),
        fromRoot_(operation == DIRECT_BROADCAST || operation == DIRECT_SCATTER),
        toRoot_(operation == DIRECT_REDUCE || operation == DIRECT_GATHER),
        parts_(operation == DIRECT_REDUCE_SCATTER || operation == DIRECT_ALL_TO_ALL ||
               operation == DIRECT_SCATTER) {}

  // True if a rank gets data of another, or of its own.
  __device__ __forceinline__ bool has(int from, int to) const {
    return (!fromRoot_ || from == root_) && (!toRoot_ || to == root_);
  }

  __device__ __forceinline__ bool sends() const { return !fromRoot_ || rank_ == root_; }

  // True if each rank gets a part of its own.
  __device__ __forceinline__ bool parts() const { return parts_; }

  // True if several ranks' data come to this rank, one behind the other unless they are combined.
  __device__ __forceinline__ bool severalCome() const { return !fromRoot_; }

 private:
  int rank_, root_;
  bool fromRoot_, toRoot_, parts_;
};

// One operation in lines, as the threads of some blocks move it.
template <class T, Received RECEIVED>
class LineWork {
 public:
  // HALF: offset of rank 0's part of what is written now, from where the operation's lines begin.
  __device__ __forceinline__ LineWork(const nccl4jDirectArguments& a, u64 send, u64 recv, u64 bytes,
                                      u32 operation, u32 op, u32 root, u64 half, LineFlags flags)
      : a_(a),
        send_((const char*)send),
        recv_((char*)recv),
        bytes_(bytes),
        op_(op),
        flow_(a, operation, root),
        half_(half),
        flags_(flags),
        touch_(touchFor<T>(op)) {}

  // Lines from number first on, each so many behind the one before.
  __device__ __forceinline__ void send(u64 first, u64 step) const {
    const int n = a_.comm.nRanks, rank = a_.comm.rank;
    for (u64 at = first * 8; at < bytes_; at += step * 8) {
      u64 same = flow_.parts() || !flow_.sends() ? 0 : mine(0, at);
      for (int d = 1; d < n; d++) {
        int to = rank + d < n ? rank + d : rank + d - n;
        const bool data = flow_.has(rank, to);
        if (!data && at != 0) continue;
        storeLine(peer(a_, to, half_ + rank * a_.lineBytes + 2 * at),
                  flow_.parts() && data ? mine(to, at) : same, flags_);
      }
    }
  }

  __device__ __forceinline__ void receive(u64 first, u64 step) const {
    const int n = a_.comm.nRanks, rank = a_.comm.rank;
    const bool divides = kCombined && touch_.divide;
    const Inside inside = insideMean<T>(op_, n);
    const u64 apart = flow_.severalCome() ? bytes_ : 0;  // from one rank's data to the next's
    for (u64 at = first * 8; at < bytes_; at += step * 8) {
      const u32 bytes = (u32)min(8ull, bytes_ - at);
      const u64 kept = flow_.sends() ? mine(rank, at) : 0;
      Accumulator<T, 1> sum{};
      for (int from = 0; from < n; from++) {
        const bool data = flow_.has(from, rank);
        if (!data && (from == rank || at != 0)) continue;
        u64 x = from == rank
                    ? kept
                    : awaitLine(a_, own(a_, half_ + from * a_.lineBytes + 2 * at), from, flags_);
        if (!data) continue;
        u64 b[1] = {x};
        if (!kCombined)
          storeElements<T>(recv_ + from * apart + at, x, bytes);
        else if (from == 0)
          sum.set(b, inside);
        else
          sum.add(op_, b, inside);
      }
      if (at == first * 8) admitWhenMet(a_.comm);
      if constexpr (kCombined) {
        if (!flow_.has(rank, rank)) continue;
        u64 result[1];
        sum.result(result);
        storeElements<T>(recv_ + at, divides ? divideElements<T>(result[0], n) : result[0], bytes);
      }
    }
  }

 private:
  static constexpr bool kCombined = RECEIVED == Received::COMBINED;

  // This rank's data for a rank.
  __device__ __forceinline__ u64 mine(int to, u64 at) const {
    u64 x = loadElements<T>(send_ + (flow_.parts() ? to * bytes_ : 0) + at, (u32)min(8ull, bytes_ - at));
    // Means of types that widen are scaled where they are combined; what travels is as the user has it.
    return kCombined && touch_.scale && !kWidens<T> ? scaleElements<T>(x, a_.comm.nRanks) : x;
  }

  const nccl4jDirectArguments& a_;
  const char* send_;
  char* recv_;
  u64 bytes_;
  u32 op_;
  Flow flow_;
  u64 half_;
  LineFlags flags_;
  Touch touch_;
};

// Offset of the half whose turn it is.
__device__ __forceinline__ u64 halfOf(const nccl4jDirectArguments& a, u32 number) {
  return a.lines + (number & 1) * a.comm.nRanks * a.lineBytes;
}

template <class T, Received RECEIVED>
__device__ __forceinline__ void ll(const nccl4jDirectArguments& a) {
  begin(a);
  const u32 number = epoch(a);
  const LineWork<T, RECEIVED> work(a, a.send, a.recv, a.bytes, a.operation, a.op, a.root,
                                   halfOf(a, number), LineFlags(number, a.comm.signature));
  const u64 step = (u64)gridDim.x * blockDim.x;
  const u64 first = (u64)blockIdx.x * blockDim.x + threadIdx.x;
  work.send(first, step);
  work.receive(first, step);
  finish(a, number);
}

}  // namespace direct
}  // namespace nccl4j
