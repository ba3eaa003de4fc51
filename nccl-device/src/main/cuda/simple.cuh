// The Simple protocol: slots of plain data, handed over by tail and head words.
//
// A block has three roles, so that no latency of a step delays another step:
// 16 worker warps move data. The scheduling warp runs the collective's schedule, waits for tails and heads,
// and describes the next step while the workers run this one. The posting warp makes finished steps
// visible (the fence takes a round trip to the peer) and posts tails and heads.
//
// Descriptions lie in a ring of eight in shared memory. For step k the scheduler tells the workers
// through barrier ready[k & 3], the workers count the warps that are done with it, and the poster
// tells the scheduler at once, before it posts, through free[k & 3]. The scheduler waits for
// that before it describes step k + 4. So no barrier serves two steps at once, and the poster, which is at
// most four steps behind, still finds its description. The poster waits for nothing else: while the
// scheduler waits for a peer's data, the poster must still post the data that the peer waits for.
// A fence takes longer than a step of a message, so the poster posts all finished steps after one.
#pragma once
#include "reduce.cuh"
#include "step.cuh"
#include "unaligned.cuh"
#include "wait.cuh"

namespace nccl4j {

constexpr int kWorkerWarps = 16;
constexpr int kSimpleThreads = NCCL4J_SIMPLE_THREADS;
static_assert(kSimpleThreads == 32 * (kWorkerWarps + 2), "workers, the scheduling warp and the posting warp");

constexpr u32 kNoSource = ~0u, kEverySource = ~0u - 1;

struct MoveDescription {
  u32 end;  // no more steps
  u32 kind;
  u32 bytes;
  u32 nSrc, nDst;  // of a scatter or gather: nSrc pairs
  u32 aligned;     // all addresses to 16 bytes
  u32 scaled;      // the source that is multiplied by the factor, or kNoSource or kEverySource
  u32 divide;
  u32 recvMask, sendMask;
  u64 src[kMaxFan + 1];
  u64 dst[kMaxFan + 1];
  u32 part[kMaxFan];

  __device__ __forceinline__ bool scales(u32 source) const { return scaled == source || scaled == kEverySource; }
};

constexpr u32 kStepsAhead = 4;  // most steps that are described and not free

struct SimpleShared {
  MoveDescription moves[2 * kStepsAhead];
  u32 done;  // workers' warps, counted once for each step that they are done with

  // Called by all threads, before a barrier.
  __device__ __forceinline__ void open() {
    if (threadIdx.x == 0) done = 0;
  }

  __device__ __forceinline__ MoveDescription& of(u32 step) { return moves[step % (2 * kStepsAhead)]; }
};

namespace simple {

constexpr int kReady = 1, kFree = kReady + kStepsAhead;  // barriers
constexpr int kReadyThreads = 32 * (kWorkerWarps + 1);
constexpr int kFreeThreads = 64;

__device__ __forceinline__ int place(u32 step) { return step % kStepsAhead; }

// A warp of the workers is done with a step.
__device__ __forceinline__ void tellDone(SimpleShared& shared) {
  __syncwarp();
  if (threadIdx.x % 32 != 0) return;
  __threadfence_block();
  atomicAdd(&shared.done, 1u);
}

// True once all warps are done with a step. All threads of the posting warp.
__device__ __forceinline__ bool isDone(const SimpleShared& shared, u32 step) {
  const u32 found = __shfl_sync(~0u, *(const volatile u32*)&shared.done, 0);
  if ((int)(found - (step + 1) * kWorkerWarps) < 0) return false;
  __threadfence_block();
  return true;
}

// Combines words of all sources. load(x, s) sets x to those of source s.
template <class T, int N, class Load>
__device__ __forceinline__ void combineSources(const MoveDescription& m, u32 op, int nRanks,
                                               const Factor<T>& factor, u64 (&a)[N], Load load) {
  u64 b[N] = {};
  auto scale = [&](u64(&x)[N], u32 s) {
    if (m.scales(s))
      for (int i = 0; i < N; i++) x[i] = multiplyElements<T>(x[i], factor);
  };
  load(a, 0);
  if constexpr (kCombines && kWidens<T>) {
    if (m.nSrc == 1) {
      scale(a, 0);
    } else {
      auto inside = [&](u32 s) { return insideBy<T>(op, factor, m.scales(s)); };
      Accumulator<T, N> sum;
      load(b, 1);
      sum.set(a, inside(0));
      for (u32 s = 1; s < m.nSrc; s++) {
        sum.add(op, b, inside(s));
        if (s + 1 < m.nSrc) load(b, s + 1);
      }
      sum.result(a);
    }
  } else if (kCombines) {
    if (m.nSrc > 1) load(b, 1);
    scale(a, 0);
    for (u32 s = 1; s < m.nSrc; s++) {
      scale(b, s);
      combine<T>(op, a, b);
      if (s + 1 < m.nSrc) load(b, s + 1);
    }
  }
  if (kCombines && m.divide)
    for (int i = 0; i < N; i++) a[i] = divideElements<T>(a[i], nRanks);
}

// Combines sources into destinations, several packs a thread at a time.
template <class T, int UNROLL>
__device__ __forceinline__ void reducePacks(const MoveDescription& m, u32 op, int nRanks,
                                            const Factor<T>& factor, int thread, u32 nPacks) {
  constexpr u32 kStride = 32 * UNROLL;  // packs of a warp
  for (u32 p = thread / 32 * kStride + thread % 32; p < nPacks; p += kWorkerWarps * kStride) {
    u64 at = (u64)p * 16;
    u64 a[2 * UNROLL] = {};
    combineSources<T>(m, op, nRanks, factor, a, [&](u64(&x)[2 * UNROLL], u32 s) {
#pragma unroll
      for (int i = 0; i < UNROLL; i++) {
        if (p + 32 * i >= nPacks) continue;
        Pack v = loadPack((char*)m.src[s] + at + 512 * i);
        x[2 * i] = v.lo;
        x[2 * i + 1] = v.hi;
      }
    });
    for (u32 d = 0; d < m.nDst; d++) {
#pragma unroll
      for (int i = 0; i < UNROLL; i++)
        if (p + 32 * i < nPacks)
          storePack((char*)m.dst[d] + at + 512 * i, {a[2 * i], a[2 * i + 1]});
    }
  }
}

// The same of one source to one destination or more, as it is: messages of few blocks gain by more packs in
// flight, collectives do not. Registers that only some iterations load are set first: else the
// compiler keeps them for the whole kernel.
template <int UNROLL>
__device__ __forceinline__ void movePacks(const MoveDescription& m, int thread, u32 nPacks) {
  constexpr u32 kStride = 32 * UNROLL;
#pragma unroll 1
  for (u32 p = thread / 32 * kStride + thread % 32; p < nPacks; p += kWorkerWarps * kStride) {
    const u64 at = (u64)p * 16;
    Pack x[UNROLL] = {};
#pragma unroll
    for (int i = 0; i < UNROLL; i++)
      if (p + 32 * i < nPacks) x[i] = loadPack((char*)m.src[0] + at + 512 * i);
#pragma unroll 1
    for (u32 d = 0; d < m.nDst; d++) {
#pragma unroll
      for (int i = 0; i < UNROLL; i++)
        if (p + 32 * i < nPacks) storePack((char*)m.dst[d] + at + 512 * i, x[i]);
    }
  }
}

// Up to eight bytes at an offset.
template <class T>
__device__ __forceinline__ void reduceWord(const MoveDescription& m, u32 op, int nRanks,
                                           const Factor<T>& factor, u64 at, u32 n) {
  u64 x[1];
  Accumulator<T, 1> sum;
  for (u32 s = 0; s < (kCombines ? m.nSrc : 1); s++) {
    x[0] = loadElements<T>((char*)m.src[s] + at, n);
    const bool scales = kCombines && m.scales(s);
    if (scales && (!kWidens<T> || m.nSrc == 1)) x[0] = multiplyElements<T>(x[0], factor);
    const Inside inside = insideBy<T>(op, factor, scales);
    if (s == 0)
      sum.set(x, inside);
    else if (kCombines)
      sum.add(op, x, inside);
  }
  if (!kWidens<T> || m.nSrc > 1) sum.result(x);
  if (kCombines && m.divide) x[0] = divideElements<T>(x[0], nRanks);
  for (u32 d = 0; d < m.nDst; d++) storeElements<T>((char*)m.dst[d] + at, x[0], n);
}

// Buffers at any addresses. Packs are those of the only destination, else those of the slots, which lie at
// multiples of 16. Not inlined: aligned steps keep their registers.
template <class T>
__device__ __noinline__ void reduceUnaligned(const MoveDescription& m, u32 op, int nRanks,
                                             const Factor<T>& factor, int thread) {
  constexpr u32 kThreads = 32 * kWorkerWarps, kUnroll = 2;
  const WholePacks packs = wholePacks(m.nDst == 1 ? m.dst[0] : 0, 0, m.bytes);
#pragma unroll 1
  for (u64 at = packs.begin + 16 * thread; at < packs.end; at += 16 * kUnroll * kThreads) {
    const u32 n = at + 16 * kThreads < packs.end ? 2 : 1;
    u64 a[2 * kUnroll] = {};
    combineSources<T>(m, op, nRanks, factor, a, [&](u64(&x)[2 * kUnroll], u32 s) {
      Pack v[kUnroll] = {};
      loadAnywhere(v, (const char*)m.src[s], n, loadPack, [&](int i) { return at + 16 * kThreads * i; });
#pragma unroll
      for (int i = 0; i < (int)kUnroll; i++) {
        x[2 * i] = v[i].lo;
        x[2 * i + 1] = v[i].hi;
      }
    });
    for (u32 d = 0; d < m.nDst; d++) {
#pragma unroll
      for (int i = 0; i < (int)kUnroll; i++)
        if (i < (int)n) storeAnywhere((char*)m.dst[d] + at + 16 * kThreads * i, {a[2 * i], a[2 * i + 1]});
    }
  }
  const u64 at = edgeAt(packs, 0, m.bytes, thread, sizeof(T));
  if (at < m.bytes) reduceWord<T>(m, op, nRanks, factor, at, sizeof(T));
}

template <class T, bool MESSAGES>
__device__ __forceinline__ void reduceCopy(const MoveDescription& m, u32 op, int nRanks,
                                           const Factor<T>& factor, int thread) {
  constexpr int kThreads = 32 * kWorkerWarps;
  if (!m.aligned) {
    reduceUnaligned<T>(m, op, nRanks, factor, thread);
    return;
  }
  const u32 nPacks = m.bytes / 16;
  // Large steps move more packs at once, as many as fit in registers while they are combined. Small steps
  // give each warp a part.
  constexpr int kMost = !kCombines || !kWidens<T> ? 4 : sizeof(T) == 1 ? 2 : 3;
  if (MESSAGES && nPacks > 4 * kThreads)
    movePacks<8>(m, thread, nPacks);
  else if (nPacks > 2 * kThreads)
    reducePacks<T, kMost>(m, op, nRanks, factor, thread, nPacks);
  else
    reducePacks<T, 2>(m, op, nRanks, factor, thread, nPacks);
  // Bytes behind the last pack.
  const u32 at = nPacks * 16 + thread * 8;
  if (at < m.bytes) reduceWord<T>(m, op, nRanks, factor, at, min(8u, m.bytes - at));
}

// A pair's share of one of its warps, at any addresses.
__device__ __noinline__ void copyUnaligned(char* dst, const char* src, u32 bytes, u32 thread, u32 threads) {
  const WholePacks packs = wholePacks((u64)dst, 0, bytes);
  copyOutOfPhase<true>(dst, src, packs, thread, threads, loadPack, storePack);
  copyEdges(dst, src, packs, 0, bytes, thread);
}

// Copies pairs side by side, each by its share of the warps.
template <class T>
__device__ __forceinline__ void copyPairs(const MoveDescription& m, int thread) {
  int warp = thread / 32, lane = thread & 31;
  int groups = min(m.nSrc, (u32)kWorkerWarps);
  for (u32 pair = warp % groups; pair < m.nSrc; pair += groups) {
    u32 warps = (kWorkerWarps - warp % groups + groups - 1) / groups;
    u32 mine = warp / groups;
    const char* src = (const char*)m.src[pair];
    char* dst = (char*)m.dst[pair];
    u32 bytes = m.part[pair];
    if (!m.aligned) {
      copyUnaligned(dst, src, bytes, mine * 32 + lane, warps * 32);
      continue;
    }
    u32 nPacks = bytes / 16;
    constexpr int kUnroll = 4;
    for (u32 p = mine * 32 * kUnroll + lane; p < nPacks; p += warps * 32 * kUnroll) {
      Pack x[kUnroll] = {};
#pragma unroll
      for (int i = 0; i < kUnroll; i++)
        if (p + 32 * i < nPacks) x[i] = loadPack(src + (u64)(p + 32 * i) * 16);
#pragma unroll
      for (int i = 0; i < kUnroll; i++)
        if (p + 32 * i < nPacks) storePack(dst + (u64)(p + 32 * i) * 16, x[i]);
    }
    for (u32 at = nPacks * 16 + (mine * 32 + lane) * 8; at < bytes; at += warps * 256) {
      u32 n = bytes - at < 8 ? bytes - at : 8;
      storeElements<T>(dst + at, loadElements<T>(src + at, n), n);
    }
  }
}

// MESSAGES: all steps move the data of one send or receive.
template <class T, bool MESSAGES = false>
__device__ __forceinline__ void work(SimpleShared& shared, u32 op, int nRanks, const Factor<T>& factor,
                                     int thread) {
  for (u32 k = 0;; k++) {
    barrierSync(kReady + place(k), kReadyThreads);
    const MoveDescription& m = shared.of(k);
    bool end = m.end;
    if (!end) {
      if (m.kind == STEP_REDUCE)
        reduceCopy<T, MESSAGES>(m, op, nRanks, factor, thread);
      else
        copyPairs<T>(m, thread);
    }
    tellDone(shared);
    if (end) return;
  }
}

// The posting warp. It also stores the steps for the next kernel, and announces the call with its first
// step. Nothing waits for this warp. It reads the call in a slot before it releases the slot.
__device__ __forceinline__ void post(SimpleShared& shared, Fan& fan, const nccl4jCommunicator& comm,
                                     int channel, u32 signature, int lane) {
  u64 sent = 0, received = 0;
  bool ends = false;
  for (u32 k = 0; !ends;) {
    while (!isDone(shared, k)) {
    }
    const u32 most = k + kStepsAhead;
    u64 ready = sent;
    bool sends = false;
    do {
      const MoveDescription& m = shared.of(k);
      ends = m.end;
      if (ends) break;
      const u32 recvMask = m.recvMask, sendMask = m.sendMask;
      __syncwarp();
      barrierArrive(kFree + place(k), kFreeThreads);
      if (recvMask >> lane & 1) {
        if (received == 0) {
          const u32 call = loadControl(callOf(fan.recvData[lane], channel, fan.received[lane]));
          const u32 wanted = callWord(fan.received[lane], signature);
          const bool unsaid = call == 0 && fan.carried[lane] & 2;  // the network carries no notes
          if (!unsaid && call != wanted)
            Patience::refuse((nccl4jControl*)comm.control, fan.rank[lane], channel, unlikeCall(wanted, call));
        }
        received++;
        storeWordRelaxed((void*)fan.recvCredit[lane], fan.received[lane] + received);
      }
      if (sendMask >> lane & 1) {
        if (ready == 0)
          storeControl(callOf(fan.sendData[lane], channel, fan.sent[lane]), callWord(fan.sent[lane], signature));
        ready++;
      }
      sends |= sendMask != 0;
      __syncwarp();
      k++;
    } while (k < most && isDone(shared, k));
    if (sends) fenceSystem();
    if (ready != sent) storeWordRelaxed(tailOf(fan.sendData[lane], channel), fan.sent[lane] + ready);
    sent = ready;
  }
  if (sent | received) {
    nccl4jSteps* steps = (nccl4jSteps*)fan.steps[lane];
    if (sent) steps->sent = fan.sent[lane] += sent;
    if (received) steps->received = fan.received[lane] += received;
  }
}

}  // namespace simple

// The primitives that schedules call. They run in the scheduling warp; lane i manages fan entry i.
class SimplePrimitives {
 public:
  __device__ SimplePrimitives(SimpleShared& shared, const Fan& fan, const nccl4jCommunicator& comm,
                              int channel, bool scale, bool divide)
      : shared_(shared),
        fan_(fan),
        patience_(comm),
        place_(slotPlace(comm, SIMPLE, channel)),
        channel_(channel),
        scale_(scale),
        divide_(divide),
        lane_(threadIdx.x & 31) {
    if (lane_ < fan.n) {
      sent_ = fan.sent[lane_];
      received_ = fan.received[lane_];
      head_ = fan.implied[lane_];
    }
  }

  // This protocol posts tails and heads for every step.
  __device__ __forceinline__ void mutual() {}

  // Posts the heads that earlier kernels of other protocols did not post. Called before code that needs all slots.
  __device__ __forceinline__ void remind() {
    if (lane_ < fan_.n && fan_.rank[lane_] >= 0) storeWordRelaxed((void*)fan_.recvCredit[lane_], received_);
  }

  static constexpr int kSlices = 4;  // of a chunk
  static constexpr bool kClaims = true;
  static constexpr bool kScalesScatters = false;  // it scales what is combined

  // From now on each sent step carries the number of this channel's next round.
  __device__ __forceinline__ void tell(u32 next) {
    noting_ = true;
    note_ = next;
  }

  // That number, set here or received from the previous rank; none after a failure.
  __device__ __forceinline__ u32 told() const { return dead_ ? ~0u : note_; }

  // The entry of the fan that this thread manages.
  __device__ __forceinline__ int entry() const { return lane_; }

  template <class S>
  __device__ void run(const S& step) {
    if (dead_) return;
    bool recv = step.recvMask >> lane_ & 1, send = step.sendMask >> lane_ & 1;
    bool ok = true;
    const SlotUse slots = slotsOf(step);
    if (recv) ok = waitData(slots.recvAhead);
    if (send) ok = waitCredit() && ok;
    if (!__all_sync(~0u, ok)) {
      dead_ = true;
      return;
    }
    if (step.learn) {
      u32 next = 0;
      if (lane_ == 0) next = loadControl(noteOf(fan_.recvData[0], channel_, received_));
      tell(__shfl_sync(~0u, next, 0));
    }
    if (k_ >= kStepsAhead) awaitFree(k_);
    describe(step, slots, recv, send);
    if (recv && slots.releases) received_++;
    if (send && slots.posts) sent_++;
    tellReady();
  }

  // Ends the workers, and waits until every step is free.
  __device__ void finish() {
    const u32 steps = k_;
    if (steps >= kStepsAhead) awaitFree(steps);
    if (lane_ == 0) shared_.of(steps).end = 1;
    tellReady();
    for (u32 k = steps >= kStepsAhead ? steps - kStepsAhead + 1 : 0; k < steps; k++) awaitFree(k);
  }

 private:
  __device__ __forceinline__ static SlotUse slotsOf(const Step& step) {
    SlotUse whole;
    whole.filled = step.bytes;
    return whole;
  }

  __device__ __forceinline__ static SlotUse slotsOf(const PieceStep& step) { return step.slots; }

  // The step, or the one before it that has its place.
  __device__ __forceinline__ void awaitFree(u32 step) {
    barrierSync(simple::kFree + simple::place(step), simple::kFreeThreads);
  }

  __device__ __forceinline__ void tellReady() {
    __syncwarp();
    barrierArrive(simple::kReady + simple::place(k_), simple::kReadyThreads);
    k_++;
  }

  __device__ bool waitData(u32 ahead) {
    const u64 step = received_ + ahead;
    while (tail_ <= step) {
      tail_ = loadWordAcquire(tailOf(fan_.recvData[lane_], channel_));
      if (tail_ > step) break;
      if (patience_.exhausted(fan_.rank[lane_], channel_, 0, step)) return false;
    }
    return true;
  }

  __device__ bool waitCredit() {
    while (head_ + NCCL4J_SLOTS <= sent_) {
      head_ = loadWordAcquire((void*)fan_.sendCredit[lane_]);
      if (head_ + NCCL4J_SLOTS > sent_) break;
      if (patience_.exhausted(fan_.rank[lane_], channel_, 1, sent_)) return false;
    }
    return true;
  }

  // Lays out this thread's pair of STEP_PIECES; returns the user's addresses in it.
  __device__ __forceinline__ static u64 pieces(MoveDescription&, const Step&, u64, int) { return 0; }

  __device__ __forceinline__ static u64 pieces(MoveDescription& m, const PieceStep& step, u64 slot, int lane) {
    const u64 base = __shfl_sync(~0u, slot, __ffs(step.recvMask | step.sendMask) - 1);
    if (lane >= step.pieces) return 0;
    const u64 piece = base + lane * step.apart;
    m.src[lane] = step.src ? (u64)step.src : piece;
    m.dst[lane] = step.dst ? (u64)step.dst : piece;
    m.part[lane] = step.bytes;
    return (u64)step.src | (u64)step.dst;
  }

  __device__ __forceinline__ static u32 pairs(const Step&) { return 0; }

  __device__ __forceinline__ static u32 pairs(const PieceStep& step) { return step.pieces; }

  template <class S>
  __device__ void describe(const S& step, const SlotUse& slots, bool recv, bool send) {
    MoveDescription& m = shared_.of(k_);
    u32 below = (1u << lane_) - 1;
    u64 from = recv ? (u64)place_.at(fan_.recvData[lane_], received_ + slots.recvAhead) + slots.recvAt : 0;
    u64 to = send ? (u64)place_.at(fan_.sendData[lane_], sent_) + slots.sendAt : 0;
    if (send && slots.posts && fan_.carried[lane_] & 1) {
      u32 bytes = step.kind == STEP_SCATTER ? step.part(fan_.rank[lane_]) : slots.filled;
      storeControl(noteOf(fan_.sendData[lane_], channel_, sent_), bytes);
    }
    if (send && noting_) storeControl(noteOf(fan_.sendData[lane_], channel_, sent_), note_);
    u64 other = 0;  // the user's address in this lane's pair
    u32 nRecv = __popc(step.recvMask), nSend = __popc(step.sendMask);
    u32 ownAt = __popc(step.recvMask & (u32)((1ull << fan_.self) - 1));  // self is at most kMaxFan
    if (step.kind == STEP_REDUCE) {
      if (recv) m.src[__popc(step.recvMask & below) + (step.src && lane_ >= fan_.self)] = from;
      if (send) m.dst[__popc(step.sendMask & below) + (step.dst != nullptr)] = to;
    } else if (step.kind == STEP_SCATTER) {
      if (send) {
        u32 pair = __popc(step.sendMask & below);
        other = (u64)step.src + fan_.rank[lane_] * step.stride;
        m.src[pair] = other;
        m.dst[pair] = to;
        m.part[pair] = step.part(fan_.rank[lane_]);
      }
    } else if (step.kind == STEP_PIECES) {
      other = pieces(m, step, recv ? from : to, lane_);
    } else if (recv) {
      u32 pair = __popc(step.recvMask & below);
      other = (u64)step.dst + fan_.rank[lane_] * step.stride;
      m.src[pair] = from;
      m.dst[pair] = other;
      m.part[pair] = step.part(fan_.rank[lane_]);
    }
    u64 user = other;
    if (step.kind == STEP_REDUCE) user = (u64)step.src | (u64)step.dst;
    bool aligned = __all_sync(~0u, (user & 15) == 0);
    if (lane_ == 0) {
      m.end = 0;
      m.kind = step.kind;
      m.bytes = step.bytes;
      m.aligned = aligned;
      m.recvMask = slots.releases ? step.recvMask : 0;
      m.sendMask = slots.posts ? step.sendMask : 0;
      if (step.kind == STEP_REDUCE) {
        if (step.src) m.src[ownAt] = (u64)step.src;
        if (step.dst) m.dst[0] = (u64)step.dst;
        m.nSrc = nRecv + (step.src != nullptr);
        m.nDst = nSend + (step.dst != nullptr);
        m.scaled = !scale_ || step.scale == SCALE_NONE ? kNoSource
                   : step.scale == SCALE_ALL           ? kEverySource
                   : step.src                          ? ownAt
                                                       : kNoSource;
        m.divide = divide_ && step.last;
      } else {
        m.nSrc = step.kind == STEP_PIECES ? pairs(step) : step.kind == STEP_SCATTER ? nSend : nRecv;
      }
    }
  }

  SimpleShared& shared_;
  const Fan& fan_;
  Patience patience_;
  SlotPlace place_;
  int channel_;
  bool scale_, divide_;
  int lane_;
  u64 sent_ = 0, received_ = 0;
  u64 tail_ = 0, head_ = 0;
  u32 k_ = 0;
  u32 note_ = 0;
  bool noting_ = false;
  bool dead_ = false;
};

}  // namespace nccl4j
