// NVLink SHARP: all-reduce, reduce-scatter and all-gather over memory that all ranks have at the
// same offsets (class NvlsLayout says what lies where).
//
// A block is a channel. It has three groups of warps, which work on different chunks at a time:
// - scatter copies this rank's data into the slots of each head's reduce connection.
// - head, on ranks that are heads, combines its slots of all ranks and stores the result into the
//   slots of its broadcast connection at all ranks.
// - gather copies those slots into the user's buffer.
// In a reduce-scatter, head writes the user's buffer and there is no gather. In an all-gather, head
// reads the user's buffer and there is no scatter. Each group has a barrier between two chunks. Its
// first threads wait for the words of the connections and post them.
#pragma once
#include "multimem.cuh"
#include "share.cuh"
#include "wait.cuh"

namespace nccl4j {
namespace nvls {

constexpr int kThreads = NCCL4J_NVLS_THREADS;
constexpr int kCopyUnroll = 8;
constexpr int kReduceUnroll = 4;
constexpr u32 kWordsBytes = 4096;
constexpr u32 kTail = 2048;  // distance from the head word to the tail word

struct Shared {
  u32 dead[5];  // for each group's barrier: 1 if the group gave up; its threads end at one chunk
  u64 reduceSteps[NCCL4J_NVLS_HEADS];  // steps before this kernel
  u64 broadcastSteps[NCCL4J_NVLS_HEADS];

  // All threads call it, before a barrier.
  __device__ __forceinline__ void begin(const nccl4jNvlsArguments& a, int channel) {
    const int t = threadIdx.x;
    if (t < 5) dead[t] = 0;
    if (t < a.nHeads) {
      nccl4jNvlsSteps s = ((const nccl4jNvlsSteps*)a.steps)[channel * NCCL4J_NVLS_HEADS + t];
      reduceSteps[t] = s.reduce;
      broadcastSteps[t] = s.broadcast;
    }
  }
};

// Warps with one task. All of them call each function.
struct Group {
  int thread, threads, barrier;

  __device__ __forceinline__ void sync() const { barrierSync(barrier, threads); }
};

// A channel's share, in loops of one chunk for each head.
class Loop {
 public:
  __device__ Loop(const nccl4jNvlsArguments& a, int channel)
      : share_(a.bytes, a.nChannels, channel),
        heads_(a.collective == ALL_REDUCE ? a.nHeads : 1),
        most_(a.chunkBytes) {
    cut();
  }

  __device__ __forceinline__ bool more() const { return base_ < share_.bytes; }
  __device__ __forceinline__ void next() {
    base_ += (u64)chunk_ * heads_;
    index_++;
    cut();
  }
  __device__ __forceinline__ u64 index() const { return index_; }

  // Bytes of a head's chunk; 0 for some heads in the last loop of an all-reduce.
  __device__ __forceinline__ u32 bytes(int head) const {
    u64 skip = heads_ == 1 ? 0 : (u64)head * chunk_, rest = share_.bytes - base_;
    return skip >= rest ? 0 : (u32)min((u64)chunk_, rest - skip);
  }

  // Offset of a head's chunk: in an all-reduce in the whole buffer, otherwise in the head's part.
  __device__ __forceinline__ u64 at(int head) const {
    return share_.begin + base_ + (heads_ == 1 ? 0 : (u64)head * chunk_);
  }

 private:
  __device__ __forceinline__ void cut() {
    if (more()) chunk_ = (u32)min((u64)most_, evenPart(share_.bytes - base_, heads_));
  }

  Share share_;
  int heads_;
  u32 most_, chunk_ = 0;
  u64 base_ = 0, index_ = 0;
};

// Offsets of a channel's connections.
struct Places {
  u64 slotBytes, connection, channels;
  int channel;

  __device__ Places(const nccl4jNvlsArguments& a, int channel)
      : slotBytes(a.slotBytes),
        connection(NCCL4J_SLOTS * (u64)a.slotBytes + kWordsBytes),
        channels(a.layoutChannels),
        channel(channel) {}

  __device__ __forceinline__ u64 reduce(int h) const { return (2 * h * channels + channel) * connection; }
  __device__ __forceinline__ u64 broadcast(int h) const {
    return ((2 * h + 1) * channels + channel) * connection;
  }
  __device__ __forceinline__ u64 slot(u64 step) const { return (step & (NCCL4J_SLOTS - 1)) * slotBytes; }
  __device__ __forceinline__ u64 head() const { return NCCL4J_SLOTS * slotBytes; }
  __device__ __forceinline__ u64 tail() const { return head() + kTail; }
};

// Reads 16 bytes, or the bytes that are left, of a user's buffer, which has any alignment. Packs of
// slots are always whole; bytes behind the data are ignored.
template <class T>
__device__ __forceinline__ Pack readUser(const char* p, u32 left) {
  if (left >= 16 && ((u64)p & 15) == 0) return loadPack(p);
  return {loadElements<T>(p, left < 8 ? left : 8),
          left > 8 ? loadElements<T>(p + 8, left - 8 < 8 ? left - 8 : 8) : 0};
}

template <class T>
__device__ __forceinline__ void writeUser(char* p, Pack v, u32 left) {
  if (left >= 16 && ((u64)p & 15) == 0) {
    storePack(p, v);
    return;
  }
  storeElements<T>(p, v.lo, left < 8 ? left : 8);
  if (left > 8) storeElements<T>(p + 8, v.hi, left - 8 < 8 ? left - 8 : 8);
}

// A thread moves U packs at once, 512 bytes apart. Calls f(at, left) for the first of each U, with
// its offset and the bytes from there to the end.
template <int U, class F>
__device__ __forceinline__ void forPacks(const Group& g, u32 bytes, F f) {
  for (u32 at = (g.thread / 32 * U * 32 + g.thread % 32) * 16; at < bytes; at += g.threads * U * 16)
    f(at, bytes - at);
}

template <class T>
__device__ __forceinline__ void copyIn(const Group& g, const char* user, char* slot, u32 bytes,
                                       bool scale, int nRanks) {
  forPacks<kCopyUnroll>(g, bytes, [&](u32 at, u32 left) {
    Pack v[kCopyUnroll];
#pragma unroll
    for (int i = 0; i < kCopyUnroll; i++)
      if (512u * i < left) v[i] = readUser<T>(user + at + 512 * i, left - 512 * i);
#pragma unroll
    for (int i = 0; i < kCopyUnroll; i++) {
      if (512u * i >= left) continue;
      if (scale) v[i] = {scaleElements<T>(v[i].lo, nRanks), scaleElements<T>(v[i].hi, nRanks)};
      storePack(slot + at + 512 * i, v[i]);
    }
  });
}

template <class T>
__device__ __forceinline__ void copyOut(const Group& g, const char* slot, char* user, u32 bytes) {
  forPacks<kCopyUnroll>(g, bytes, [&](u32 at, u32 left) {
    Pack v[kCopyUnroll];
#pragma unroll
    for (int i = 0; i < kCopyUnroll; i++)
      if (512u * i < left) v[i] = loadPack(slot + at + 512 * i);
#pragma unroll
    for (int i = 0; i < kCopyUnroll; i++)
      if (512u * i < left) writeUser<T>(user + at + 512 * i, v[i], left - 512 * i);
  });
}

// Waits until the word that look() loads reaches a value, or the patience is exhausted.
template <class F>
__device__ __forceinline__ void await(F look, u64 value, Patience& patience, u32& dead, int peer,
                                      int channel, u32 kind) {
  while (look() < value) {
    if (patience.exhausted(peer, channel, kind, value)) {
      *(volatile u32*)&dead = 1;
      return;
    }
  }
}

__device__ __forceinline__ bool isDead(const u32& dead) { return *(volatile const u32*)&dead; }

// Patience for a thread that waits for a rank. A wait for this rank itself is an eighth longer:
// another group of this block then waits for another rank, gives up first, and names that rank.
__device__ __forceinline__ Patience patienceFor(const nccl4jCommunicator& comm, bool ownRank) {
  nccl4jCommunicator own = comm;
  if (ownRank) own.budget += own.budget / 8;
  return Patience(own);
}

// Different ranks begin with different heads, if there are enough heads.
__device__ __forceinline__ int headAfter(const nccl4jNvlsArguments& a, int distance) {
  return (a.comm.rank + distance) % a.nHeads;
}

// Patience for words of this rank itself; see patienceFor.
enum class OwnRank { AS_OTHERS, LONGER };

template <class T, class A, OwnRank OWN = OwnRank::AS_OTHERS>
__device__ void scatter(const nccl4jNvlsArguments& a, const Places& places, const Group& g,
                        Shared& shared, int channel) {
  A access(a);
  u32& dead = shared.dead[g.barrier];
  const char* own = (const char*)a.unicast;
  const bool scale = touchFor<T>(a.op).scale;
  const int t = g.thread;
  const bool mine = t < a.nHeads;
  Patience patience =
      patienceFor(a.comm, OWN == OwnRank::LONGER && mine && a.headRanks[t] == a.comm.rank);
  u64 steps = 0;
  for (Loop loop(a, channel); loop.more(); loop.next()) {
    u64 step = mine ? shared.reduceSteps[t] + loop.index() : 0;
    bool used = mine && loop.bytes(t) > 0;
    if (used && step >= NCCL4J_SLOTS) {
      const char* word = own + places.reduce(t) + places.head();
      await([&] { return loadWordAcquire(word); }, step - NCCL4J_SLOTS + 1, patience, dead,
            a.headRanks[t], channel, 1);
    }
    g.sync();
    if (isDead(dead)) return;
    for (int i = 0; i < a.nHeads; i++) {
      int h = headAfter(a, i);
      u64 from = loop.at(h) + (a.collective == REDUCE_SCATTER ? a.headRanks[h] * a.bytes : 0);
      u64 to = places.reduce(h) + places.slot(shared.reduceSteps[h] + loop.index());
      copyIn<T>(g, (const char*)a.send + from, (char*)own + to, loop.bytes(h), scale, a.comm.nRanks);
    }
    g.sync();
    if (used) {
      access.crossAliases();
      fenceSystem();
      storeWordRelaxed((void*)(own + places.reduce(t) + places.tail()), step + 1);
      steps = step + 1;
    }
  }
  if (steps) ((nccl4jNvlsSteps*)a.steps)[channel * NCCL4J_NVLS_HEADS + t].reduce = steps;
}

template <class T, class A, OwnRank OWN = OwnRank::AS_OTHERS>
__device__ void gather(const nccl4jNvlsArguments& a, const Places& places, const Group& g,
                       Shared& shared, int channel) {
  A access(a);
  u32& dead = shared.dead[g.barrier];
  const char* own = (const char*)a.unicast;
  const int t = g.thread;
  const bool mine = t < a.nHeads;
  Patience patience =
      patienceFor(a.comm, OWN == OwnRank::LONGER && mine && a.headRanks[t] == a.comm.rank);
  u64 steps = 0;
  for (Loop loop(a, channel); loop.more(); loop.next()) {
    u64 step = mine ? shared.broadcastSteps[t] + loop.index() : 0;
    bool used = mine && loop.bytes(t) > 0;
    if (used) {
      const char* word = own + places.broadcast(t) + places.tail();
      await([&] { return loadWordAcquire(word); }, step + 1, patience, dead, a.headRanks[t],
            channel, 0);
      access.crossAliases();
    }
    g.sync();
    if (isDead(dead)) return;
    for (int i = 0; i < a.nHeads; i++) {
      int h = headAfter(a, i);
      u64 from = places.broadcast(h) + places.slot(shared.broadcastSteps[h] + loop.index());
      u64 to = loop.at(h) + (a.collective == ALL_GATHER ? a.headRanks[h] * a.bytes : 0);
      copyOut<T>(g, own + from, (char*)a.recv + to, loop.bytes(h));
    }
    g.sync();
    if (used) {
      access.crossAliases();
      fenceSystem();
      storeWordRelaxed((void*)(own + places.broadcast(t) + places.head()), step + 1);
      steps = step + 1;
    }
  }
  if (steps) ((nccl4jNvlsSteps*)a.steps)[channel * NCCL4J_NVLS_HEADS + t].broadcast = steps;
}

// The ranks whose data a head combines, and the ranks that get its result.
enum class Ranks { OWN, ALL };

// Work of a head for each chunk. There may be fewer heads than ranks.
template <class T, class A, Ranks FROM, Ranks TO>
__device__ void head(const nccl4jNvlsArguments& a, const Places& places, const Group& g,
                     Shared& shared, int channel) {
  constexpr bool fromAll = FROM == Ranks::ALL, toAll = TO == Ranks::ALL;
  A access(a);
  Patience patience(a.comm);
  u32& dead = shared.dead[g.barrier];
  const bool divide = fromAll && touchFor<T>(a.op).divide;
  const int h = a.headRank;
  if (h < 0) return;
  const u64 from = places.reduce(h), to = places.broadcast(h);
  for (Loop loop(a, channel); loop.more() && loop.bytes(h) > 0; loop.next()) {
    const u64 in = shared.reduceSteps[h] + loop.index();
    const u64 out = shared.broadcastSteps[h] + loop.index();
    const u32 bytes = loop.bytes(h);
    if (g.thread < access.lookers()) {
      if (toAll && out >= NCCL4J_SLOTS)
        await([&] { return access.look(g.thread, to + places.head()); }, out - NCCL4J_SLOTS + 1,
              patience, dead, g.thread, channel, 1);
      if (fromAll)
        await([&] { return access.look(g.thread, from + places.tail()); }, in + 1, patience, dead,
              g.thread, channel, 0);
      access.crossAliases();
    }
    g.sync();
    if (isDead(dead)) return;
    const u64 slotIn = from + places.slot(in), slotOut = to + places.slot(out);
    forPacks<kReduceUnroll>(g, bytes, [&](u32 at, u32 left) {
      u64 x[2 * kReduceUnroll];
      if constexpr (fromAll) {
        access.template loadReduce<kReduceUnroll>(a.op, slotIn + at, left, x);
        if (divide)
          for (int i = 0; i < 2 * kReduceUnroll; i++) x[i] = divideElements<T>(x[i], a.comm.nRanks);
      } else {
        const char* user = (const char*)a.send + loop.at(h) + at;
#pragma unroll
        for (int i = 0; i < kReduceUnroll; i++) {
          if (512u * i >= left) continue;
          Pack v = readUser<T>(user + 512 * i, left - 512 * i);
          x[2 * i] = v.lo;
          x[2 * i + 1] = v.hi;
        }
      }
#pragma unroll
      for (int i = 0; i < kReduceUnroll; i++) {
        if (512u * i >= left) continue;
        Pack v = {x[2 * i], x[2 * i + 1]};
        if constexpr (toAll)
          access.store(slotOut + at + 512 * i, v);
        else
          writeUser<T>((char*)a.recv + loop.at(h) + at + 512 * i, v, left - 512 * i);
      }
    });
    g.sync();
    if (g.thread < access.lookers()) {
      access.crossAliases();
      fenceSystem();
      if (toAll) access.tell(g.thread, to + places.tail(), out + 1);
      if (fromAll) access.tell(g.thread, from + places.head(), in + 1);
    }
  }
}

// Threads of a group.
constexpr int kSide = 192;  // scatter and gather of an all-reduce
constexpr int kHalf = 320;  // each group of the other collectives, which have two

template <class T, class A>
__device__ void run(const nccl4jNvlsArguments& a) {
  __shared__ Shared shared;
  const int channel = blockIdx.x, t = threadIdx.x;
  shared.begin(a, channel);
  __syncthreads();
  const Places places(a, channel);
  if (a.collective == ALL_GATHER) {
    if (t < kHalf)
      head<T, A, Ranks::OWN, Ranks::ALL>(a, places, {t, kHalf, 1}, shared, channel);
    else
      gather<T, A>(a, places, {t - kHalf, kHalf, 2}, shared, channel);
    return;
  }
  if constexpr (!NCCL4J_NVLS_COPIES) {
    if (a.collective == REDUCE_SCATTER) {
      if (t < kHalf)
        scatter<T, A>(a, places, {t, kHalf, 1}, shared, channel);
      else
        head<T, A, Ranks::ALL, Ranks::OWN>(a, places, {t - kHalf, kHalf, 2}, shared, channel);
    } else if (t < kSide) {
      scatter<T, A>(a, places, {t, kSide, 1}, shared, channel);
    } else if (t < 2 * kSide) {
      gather<T, A>(a, places, {t - kSide, kSide, 2}, shared, channel);
    } else {
      head<T, A, Ranks::ALL, Ranks::ALL>(a, places, {t - 2 * kSide, kThreads - 2 * kSide, 3},
                                         shared, channel);
    }
  }
}

}  // namespace nvls
}  // namespace nccl4j
