// nccl4j's device API: for kernels of yours that reach other ranks' windows. Unpack it with
//   ./nccl device-headers DIR
// and compile with nvcc -I DIR. In Java, Communicator.registerWindow gives a Window whose
// deviceHandle() is a nccl4jWindow in device memory, and Communicator.createDeviceCommunicator gives
// a DeviceCommunicator whose address() is a nccl4jDeviceCommunicator in device memory: pass both to
// your kernel as pointers. Launch the same kernel on all ranks; blocks that meet at barriers must fit
// the GPU at once.
#ifndef NCCL4J_DEVICE_CUH
#define NCCL4J_DEVICE_CUH

#include <stddef.h>
#include <stdint.h>

// Raised with each change of a layout below. Kernels need the header of the library that they run with.
#define NCCL4J_DEVICE_VERSION 4

// A window. Rank p of the team has its first byte at base + p * stride.
struct nccl4jWindow {
  uint64_t base;
  uint64_t stride;
  uint64_t size;      // bytes
  int32_t place;      // this rank's place in the team
  int32_t team;       // ranks of the team
  uint64_t multimem;  // of all ranks at once, for multimem instructions; 0 where there is none
  int64_t number;     // the same on all ranks
};
static_assert(sizeof(nccl4jWindow) == 48, "as Window.java fills it");

// Puts to ranks outside the team, and gets from them, as the communicator's proxy thread takes them. In
// pinned memory of the host.
struct nccl4jGinDescriptor {
  uint64_t sequence;      // its number + 1; written last
  int32_t rank;
  int32_t signal;         // raised after the data; -1 for none
  int64_t window;         // number of the rank's window, the target of a put
  uint64_t offset;
  int64_t sourceWindow;   // number of this rank's window, which has a put's data
  uint64_t sourceOffset;
  uint64_t bytes;
  uint64_t kind;          // 0: put, 1: get, whose data go from the rank's window into this rank's
};
static_assert(sizeof(nccl4jGinDescriptor) == 64, "as GinLayout.java reads it");
static_assert(offsetof(nccl4jGinDescriptor, sequence) == 0, "as GinLayout.java reads it");
static_assert(offsetof(nccl4jGinDescriptor, rank) == 8, "as GinLayout.java reads it");
static_assert(offsetof(nccl4jGinDescriptor, signal) == 12, "as GinLayout.java reads it");
static_assert(offsetof(nccl4jGinDescriptor, window) == 16, "as GinLayout.java reads it");
static_assert(offsetof(nccl4jGinDescriptor, offset) == 24, "as GinLayout.java reads it");
static_assert(offsetof(nccl4jGinDescriptor, sourceWindow) == 32, "as GinLayout.java reads it");
static_assert(offsetof(nccl4jGinDescriptor, sourceOffset) == 40, "as GinLayout.java reads it");
static_assert(offsetof(nccl4jGinDescriptor, bytes) == 48, "as GinLayout.java reads it");
static_assert(offsetof(nccl4jGinDescriptor, kind) == 56, "as GinLayout.java reads it");

struct nccl4jGinRing {
  uint64_t state;         // 0 while the ring can be used
  uint64_t taken;         // descriptors that the proxy has read
  uint64_t flushed;       // descriptors whose source can be written again, or whose data are here
  uint64_t arrived;       // descriptors whose data and signals are where they belong
  uint64_t unused[12];
  uint64_t problem;       // the last wait of a kernel that was in vain
  uint64_t unused2[15];
  uint64_t signals[1];    // raised by ranks outside the team; the descriptors follow
};
static_assert(offsetof(nccl4jGinRing, state) == 0, "as GinLayout.java writes it");
static_assert(offsetof(nccl4jGinRing, taken) == 8, "as GinLayout.java writes it");
static_assert(offsetof(nccl4jGinRing, flushed) == 16, "as GinLayout.java writes it");
static_assert(offsetof(nccl4jGinRing, arrived) == 24, "as GinLayout.java writes it");
static_assert(offsetof(nccl4jGinRing, problem) == 128, "as GinLayout.java reads it");
static_assert(offsetof(nccl4jGinRing, signals) == 256, "as GinLayout.java writes it");

struct nccl4jGin {
  uint64_t ring;          // address of a nccl4jGinRing; 0 without signals
  uint64_t descriptors;   // offset in the ring: nccl4jGinDescriptor[slots]
  uint64_t claimed;       // offset in resources: u64, descriptors that kernels have claimed
  uint64_t signals;       // offset in resources: u64[signalCount], raised by ranks of the team
  int32_t slots;          // a power of two; 0 where all ranks are in the team: nothing is posted
  int32_t signalCount;
};
static_assert(sizeof(nccl4jGin) == 40, "as DeviceCommunicator.java fills it");

// A communicator, as kernels see it.
struct nccl4jDeviceCommunicator {
  nccl4jWindow resources;
  int32_t rank;
  int32_t nRanks;
  int32_t teamFirst;     // lowest rank of the load/store team
  int32_t barrierCount;
  uint64_t epochs;       // offset in resources: u64[barrierCount] of LsaBarrier, u64 of LLAllToAll,
                         // u64[barrierCount] of LsaBarrier with multimem, u64[barrierCount] of
                         // GridBarrier; this rank's alone
  uint64_t lines;        // offset in resources: 16 bytes [2][team][slots]
  uint64_t counters;     // offset in resources: for each barrier 2 times u64, 64 bytes apart, which
                         // all ranks add to at once
  int32_t slots;         // LL all-to-all: values for each rank
  int32_t version;       // NCCL4J_DEVICE_VERSION of the library
  nccl4jGin gin;
};
static_assert(sizeof(nccl4jDeviceCommunicator) == 136, "as DeviceCommunicator.java fills it");
static_assert(offsetof(nccl4jDeviceCommunicator, version) == 92, "as DeviceCommunicator.java fills it");
static_assert(offsetof(nccl4jDeviceCommunicator, gin) == 96, "as DeviceCommunicator.java fills it");

#ifdef __CUDACC__
#define NCCL4J_ANYWHERE __host__ __device__ __forceinline__
#else
#define NCCL4J_ANYWHERE inline
#endif

// The flags of a line of LLAllToAll, one for each half. Both change with each epoch, and no epoch from 1 on has those
// of a line that was never written, which are 0.
struct nccl4jLineFlags {
  uint32_t first;
  uint32_t second;
};
NCCL4J_ANYWHERE nccl4jLineFlags nccl4jFlagsOf(uint64_t epoch) {
  return {(uint32_t)epoch, (uint32_t)epoch + (uint32_t)(epoch >> 32)};
}

#ifdef __CUDACC__

namespace nccl4j_device {

// ---- Teams ----

struct Team {
  int first, size, place;
};
__device__ __forceinline__ Team teamWorld(const nccl4jDeviceCommunicator& c) {
  return {0, c.nRanks, c.rank};
}
// The ranks that load from and store to each other's windows.
__device__ __forceinline__ Team teamLsa(const nccl4jDeviceCommunicator& c) {
  return {c.teamFirst, c.resources.team, c.resources.place};
}
__device__ __forceinline__ int rankToWorld(Team team, int place) { return team.first + place; }
__device__ __forceinline__ int rankToTeam(Team team, int rank) { return rank - team.first; }

// ---- Cooperating threads ----

struct CoopThread {
  __device__ int size() const { return 1; }
  __device__ int rank() const { return 0; }
  __device__ void sync() const {}
  // Synchronizes; true in all threads if it is true in each.
  __device__ bool all(bool mine) const { return mine; }
};
struct CoopWarp {
  __device__ int size() const { return 32; }
  __device__ int rank() const { return threadIdx.x & 31; }
  __device__ void sync() const { __syncwarp(); }
  __device__ bool all(bool mine) const { return __all_sync(~0u, mine); }
};
struct CoopBlock {
  __device__ int size() const { return blockDim.x; }
  __device__ int rank() const { return threadIdx.x; }
  __device__ void sync() const { __syncthreads(); }
  __device__ bool all(bool mine) const { return __syncthreads_and(mine); }
};
// All threads of a grid of one dimension, for the copies and sums below. They have no sync(): a
// GridBarrier is one.
struct CoopGrid {
  __device__ int size() const { return gridDim.x * blockDim.x; }
  __device__ int rank() const { return blockIdx.x * blockDim.x + threadIdx.x; }
};

// ---- Pointers ----

template <class T>
__device__ __forceinline__ T* localPointer(const nccl4jWindow& w, size_t offset = 0) {
  return (T*)(w.base + (uint64_t)w.place * w.stride + offset);
}
// In the memory of the rank at a place of the team.
template <class T>
__device__ __forceinline__ T* peerPointer(const nccl4jWindow& w, int place, size_t offset = 0) {
  return (T*)(w.base + (uint64_t)place * w.stride + offset);
}

// The same place of all ranks' memory at once, for PTX's multimem.ld_reduce, multimem.red and
// multimem.st (compute capability 9.0 on); null where the communicator has no NVLS by the switch.
template <class T>
__device__ __forceinline__ T* multimemPointer(const nccl4jWindow& w, size_t offset = 0) {
  return w.multimem == 0 ? nullptr : (T*)(w.multimem + offset);
}

// Elements of a type in a window, the same on all ranks: a symmetric pointer. It is a value; copies
// refer to the same window, whose nccl4jWindow has to stay where it is.
template <class T>
class SymPtr {
 public:
  // The offset is in bytes, and a multiple of T's alignment.
  __device__ explicit SymPtr(const nccl4jWindow& w, size_t offset = 0) : w_(&w), at_(offset) {}

  __device__ T* local() const { return localPointer<T>(*w_, at_); }
  // In the memory of the rank at a place of the team.
  __device__ T* peer(int place) const { return peerPointer<T>(*w_, place, at_); }
  // See multimemPointer.
  __device__ T* multimem() const { return multimemPointer<T>(*w_, at_); }

  __device__ const nccl4jWindow& window() const { return *w_; }
  __device__ size_t offset() const { return at_; }  // bytes
  __device__ int team() const { return w_->team; }
  __device__ int place() const { return w_->place; }

  template <class U>
  __device__ SymPtr<U> as() const {
    return SymPtr<U>(*w_, at_);
  }

  __device__ SymPtr& operator+=(ptrdiff_t n) {
    at_ += n * (ptrdiff_t)sizeof(T);
    return *this;
  }
  __device__ SymPtr& operator-=(ptrdiff_t n) { return *this += -n; }
  __device__ SymPtr& operator++() { return *this += 1; }
  __device__ SymPtr& operator--() { return *this += -1; }
  __device__ SymPtr operator+(ptrdiff_t n) const { return SymPtr(*this) += n; }
  __device__ SymPtr operator-(ptrdiff_t n) const { return SymPtr(*this) += -n; }
  // Elements between two pointers into one window.
  __device__ ptrdiff_t operator-(SymPtr other) const {
    return (ptrdiff_t)(at_ - other.at_) / (ptrdiff_t)sizeof(T);
  }
  __device__ bool operator==(SymPtr other) const { return w_ == other.w_ && at_ == other.at_; }
  __device__ bool operator!=(SymPtr other) const { return !(*this == other); }

 private:
  const nccl4jWindow* w_;
  size_t at_;
};

__device__ __forceinline__ uint64_t nanoseconds() {
  uint64_t t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}

// A wait's end: call isOver() after each look that finds nothing.
class Deadline {
 public:
  __device__ explicit Deadline(uint64_t timeoutNanos) : timeout_(timeoutNanos) {}

  __device__ bool isOver() {
    if ((++looks_ & 255) != 0) return false;
    uint64_t now = nanoseconds();
    if (start_ == 0) start_ = now;
    return now - start_ > timeout_;
  }
  // True if the last isOver() has read the clock, as few do.
  __device__ bool isClockRead() const { return (looks_ & 255) == 0; }

 private:
  uint64_t timeout_;
  uint64_t start_ = 0;
  uint32_t looks_ = 0;
};

// ---- Memory orders ----

// As C++'s memory orders, at the scope of the system. An arrival with release or acqRel publishes
// what the group of threads wrote before it; a wait with acquire or acqRel sees what others have
// published. Other orders only count the arrivals.
enum class Order { relaxed, acquire, release, acqRel };

__device__ __forceinline__ constexpr bool releases(Order order) {
  return order == Order::release || order == Order::acqRel;
}
__device__ __forceinline__ constexpr bool acquires(Order order) {
  return order == Order::acquire || order == Order::acqRel;
}

__device__ __forceinline__ void store(uint64_t* to, uint64_t value, Order order) {
  if (releases(order))
    asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(to), "l"(value) : "memory");
  else
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(to), "l"(value) : "memory");
}

__device__ __forceinline__ uint64_t load(const uint64_t* from, Order order) {
  uint64_t value;
  if (acquires(order))
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
  else
    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
  return value;
}

// ---- Barriers of the team ----

// A barrier's words. Each rank has a word from each other of the team: the last epoch in which that
// rank arrived. Its own word is for the blocks of a GridBarrier.
__device__ __forceinline__ uint64_t* barrierWord(const nccl4jDeviceCommunicator& c, int index,
                                                 int owner, int writer) {
  return peerPointer<uint64_t>(c.resources, owner,
                               128ull * (index * (uint64_t)c.resources.team + writer));
}

// One of the communicator's barriers, used by the same number of groups of threads on every rank,
// one for each index. Ranks that have waited see all that a rank wrote before it arrived, if the
// orders are the default ones.
//
// With multimem, a rank arrives at all others by one instruction of the switch, where the
// communicator has NVLS (resources.multimem is not 0) and the kernel is compiled for compute
// capability 9.0 or newer; elsewhere by a store to each. All ranks pass the same.
template <class Coop>
class LsaBarrier {
 public:
  __device__ LsaBarrier(Coop coop, const nccl4jDeviceCommunicator& c, int index,
                        bool multimem = false)
      : coop_(coop), c_(c), index_(index) {
#if __CUDA_ARCH__ >= 900
    multimem_ = multimem && c.resources.multimem != 0;
#else
    multimem_ = false;
#endif
    epoch_ = *epochWord();
  }

  __device__ void arrive(Order order = Order::release) {
    if (releases(order)) crossAliases();
    coop_.sync();
    epoch_++;
    if (multimem_) {
      if (coop_.rank() == 0) arriveByMultimem(order);
      return;
    }
    for (int p = coop_.rank(); p < c_.resources.team; p += coop_.size())
      if (p != c_.resources.place)
        store(barrierWord(c_, index_, p, c_.resources.place), epoch_, order);
  }

  // False if a rank did not come in time, for some thread; then the barrier is of no further use.
  __device__ bool wait(uint64_t timeoutNanos, Order order = Order::acquire) {
    Deadline deadline(timeoutNanos);
    bool here = true;
    if (multimem_) {
      const uint64_t due = (epoch_ + 1) / 2 * c_.resources.team;
      const uint64_t* mine = counter((uint64_t)localPointer<char>(c_.resources));
      while (coop_.rank() == 0 && here && load(mine, order) < due) here = !deadline.isOver();
    } else {
      for (int p = coop_.rank(); here && p < c_.resources.team; p += coop_.size()) {
        if (p == c_.resources.place) continue;
        while (here && load(barrierWord(c_, index_, c_.resources.place, p), order) < epoch_)
          here = !deadline.isOver();
      }
    }
    // Before the threads meet, for the next barrier object of the same index may be any thread's.
    if (coop_.rank() == 0) *epochWord() = epoch_;
    coop_.sync();
    if (acquires(order)) crossAliases();
    return here;
  }

  __device__ bool sync(uint64_t timeoutNanos, Order order = Order::acqRel) {
    arrive(order);
    return wait(timeoutNanos, order);
  }

 private:
  // Barriers with and without multimem have epochs of their own, so an index can be used for both.
  __device__ uint64_t* epochWord() {
    return localPointer<uint64_t>(c_.resources, c_.epochs) + index_ +
           (multimem_ ? c_.barrierCount + 1 : 0);
  }

  // Epochs take turns with two counters. A rank adds to a counter again only after all ranks have
  // arrived in the epoch between, so after all have seen the counter full.
  __device__ uint64_t* counter(uint64_t base) {
    return (uint64_t*)(base + c_.counters + 128ull * index_ + 64 * (epoch_ & 1));
  }

  // Orders accesses through the unicast address of memory with those through its multicast address.
  __device__ void crossAliases() const {
#if __CUDA_ARCH__ >= 900
    if (multimem_) asm volatile("fence.proxy.alias;" ::: "memory");
#endif
  }

  __device__ void arriveByMultimem(Order order) {
#if __CUDA_ARCH__ >= 900
    uint64_t* all = counter(c_.resources.multimem);
    if (releases(order))
      asm volatile("multimem.red.release.sys.global.add.u64 [%0], %1;" ::"l"(all), "l"(1ull)
                   : "memory");
    else
      asm volatile("multimem.red.relaxed.sys.global.add.u64 [%0], %1;" ::"l"(all), "l"(1ull)
                   : "memory");
#endif
  }

  Coop coop_;
  const nccl4jDeviceCommunicator& c_;
  int index_;
  bool multimem_;
  uint64_t epoch_;
};

// One of the communicator's barriers, for all blocks of the grids of all ranks: no thread passes it
// before the last block of the last rank has arrived. Grids may differ between ranks. All threads of
// all blocks call it, and all blocks of a grid must fit the GPU at once. An index can be used by an
// LsaBarrier at one time and by a GridBarrier at another.
class GridBarrier {
 public:
  __device__ GridBarrier(const nccl4jDeviceCommunicator& c, int index) : c_(c), index_(index) {}

  __device__ void arrive(Order order = Order::release) {
    __syncthreads();
    if (isFirstThread()) {
      uint64_t* epochs = localPointer<uint64_t>(c_.resources, c_.epochs);
      // Read before this block's arrival: the last block raises it.
      epoch_ = load(&epochs[index_], Order::relaxed) + 1;
      arriveOnRank(&epochs[2 * c_.barrierCount + 1 + index_], &epochs[index_], order);
    }
  }

  // False in all threads of a block if a rank or a block did not come in time; then the barrier is of
  // no further use.
  __device__ bool wait(uint64_t timeoutNanos, Order order = Order::acquire) {
    __shared__ uint64_t shared;
    if (isFirstThread()) shared = epoch_;
    __syncthreads();
    const uint64_t epoch = shared;
    Deadline deadline(timeoutNanos);
    bool here = true;
    const int place = c_.resources.place;
    for (int p = thread(); here && p < c_.resources.team; p += threads()) {
      // What the rank's last block wrote for the next epoch is published with the rank's own word.
      const Order its = p == place ? Order::acquire : order;
      while (here && load(barrierWord(c_, index_, place, p), its) < epoch)
        here = !deadline.isOver();
    }
    return __syncthreads_and(here);
  }

  __device__ bool sync(uint64_t timeoutNanos, Order order = Order::acqRel) {
    arrive(order);
    return wait(timeoutNanos, order);
  }

 private:
  __device__ static int thread() {
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  }
  __device__ static int threads() { return blockDim.x * blockDim.y * blockDim.z; }
  __device__ static bool isFirstThread() { return thread() == 0; }

  // The rank's last block arrives for the rank. Its add sees what the other blocks published.
  __device__ void arriveOnRank(uint64_t* arrivals, uint64_t* epochWord, Order order) {
    uint64_t before;
    asm volatile("atom.acq_rel.sys.global.add.u64 %0, [%1], %2;"
                 : "=l"(before)
                 : "l"(arrivals), "l"(1ull)
                 : "memory");
    if (before + 1 < (uint64_t)gridDim.x * gridDim.y * gridDim.z) return;
    // No block arrives again before it has seen this rank's own word, which is stored after these.
    store(arrivals, 0, Order::relaxed);
    store(epochWord, epoch_, Order::relaxed);
    const int place = c_.resources.place;
    for (int p = 0; p < c_.resources.team; p++)
      if (p != place) store(barrierWord(c_, index_, p, place), epoch_, order);
    store(barrierWord(c_, index_, place, place), epoch_, Order::release);
  }

  const nccl4jDeviceCommunicator& c_;
  int index_;
  uint64_t epoch_ = 0;  // the first thread's
};

// ---- LL all-to-all: 8 bytes at a time, without a barrier ----

// In an epoch every rank sends to every other at least one value, and receives it: that makes it safe
// to use the lines again. All threads of the block call the constructor and endEpoch.
class LLAllToAll {
 public:
  __device__ LLAllToAll(const nccl4jDeviceCommunicator& c) : c_(c) {
    epoch_ = localPointer<uint64_t>(c.resources, c.epochs)[c.barrierCount] + 1;
  }

  __device__ void send(int place, int slot, uint64_t value) {
    const nccl4jLineFlags flags = nccl4jFlagsOf(epoch_);
    asm volatile("st.volatile.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(
                     line(place, c_.resources.place, slot)),
                 "r"((uint32_t)value), "r"(flags.first), "r"((uint32_t)(value >> 32)), "r"(flags.second)
                 : "memory");
  }

  // False if it did not come in time.
  __device__ bool recv(int place, int slot, uint64_t& value, uint64_t timeoutNanos) {
    const char* from = line(c_.resources.place, place, slot);
    const nccl4jLineFlags flags = nccl4jFlagsOf(epoch_);
    Deadline deadline(timeoutNanos);
    for (;;) {
      uint4 v;
      asm volatile("ld.volatile.global.v4.u32 {%0,%1,%2,%3}, [%4];"
                   : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                   : "l"(from)
                   : "memory");
      if (v.y == flags.first && v.w == flags.second) {
        value = (uint64_t)v.z << 32 | v.x;
        return true;
      }
      if (deadline.isOver()) return false;
    }
  }

  __device__ void endEpoch() {
    __syncthreads();
    if (threadIdx.x == 0)
      localPointer<uint64_t>(c_.resources, c_.epochs)[c_.barrierCount] = epoch_;
    epoch_++;
    __syncthreads();
  }

 private:
  __device__ char* line(int owner, int writer, int slot) {
    uint64_t at = ((epoch_ & 1) * c_.resources.team + writer) * (uint64_t)c_.slots + slot;
    return peerPointer<char>(c_.resources, owner, c_.lines + 16 * at);
  }

  const nccl4jDeviceCommunicator& c_;
  uint64_t epoch_;
};

// ---- Copies and sums ----
//
// The threads of a group share the work; all pass the same arguments. None synchronizes: sync the
// group, or use a barrier, before others use the results. Memory may be this rank's or another's of
// the team.

// Stores 16 bytes that begin kWords words and 0 to 3 bytes into two vectors.
template <int kWords>
__device__ __forceinline__ uint4 realigned(uint4 a, uint4 b, uint32_t bits) {
  const uint32_t w[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
  return {__funnelshift_r(w[kWords], w[kWords + 1], bits),
          __funnelshift_r(w[kWords + 1], w[kWords + 2], bits),
          __funnelshift_r(w[kWords + 2], w[kWords + 3], bits),
          __funnelshift_r(w[kWords + 3], w[(kWords + 4) & 7], bits)};
}

template <int kWords, class Coop>
__device__ __forceinline__ void copyRealigned(Coop coop, uint4* to, const uint4* from, size_t vectors,
                                              uint32_t bits) {
  for (size_t i = coop.rank(); i < vectors; i += coop.size())
    to[i] = realigned<kWords>(from[i], from[i + 1], bits);
}

// Copies bytes between places of any alignment that do not overlap. Where the two are aligned
// differently, it loads whole vectors of 16 bytes that hold a byte of the source, and so up to 15
// bytes before and after it.
template <class Coop>
__device__ void copy(Coop coop, void* to, const void* from, size_t bytes) {
  char* t = (char*)to;
  const char* f = (const char*)from;
  size_t head = (16 - ((uintptr_t)t & 15)) & 15;
  if (head > bytes) head = bytes;
  for (size_t i = coop.rank(); i < head; i += coop.size()) t[i] = f[i];
  t += head;
  f += head;
  const size_t vectors = (bytes - head) / 16;
  const uint32_t shift = (uint32_t)((uintptr_t)f & 15);
  if (shift == 0) {
    for (size_t i = coop.rank(); i < vectors; i += coop.size())
      ((uint4*)t)[i] = ((const uint4*)f)[i];
  } else if (vectors > 0) {
    const uint4* whole = (const uint4*)(f - shift);
    const uint32_t bits = 8 * (shift & 3);
    switch (shift >> 2) {
      case 0: copyRealigned<0>(coop, (uint4*)t, whole, vectors, bits); break;
      case 1: copyRealigned<1>(coop, (uint4*)t, whole, vectors, bits); break;
      case 2: copyRealigned<2>(coop, (uint4*)t, whole, vectors, bits); break;
      default: copyRealigned<3>(coop, (uint4*)t, whole, vectors, bits); break;
    }
  }
  for (size_t i = head + 16 * vectors + coop.rank(); i < bytes; i += coop.size())
    ((char*)to)[i] = ((const char*)from)[i];
}

// Copies elements to the same place of all ranks of the team, this one too.
template <class Coop, class T>
__device__ void copyToAll(Coop coop, SymPtr<T> to, const T* from, size_t count) {
  // Each rank begins at another, so that not all store to one at a time.
  for (int i = 0; i < to.team(); i++)
    copy(coop, to.peer((to.place() + i) % to.team()), from, count * sizeof(T));
}

// The type in which elements are added up: float for types of 1 and 2 bytes that are no integers,
// such as CUDA's floating types of 8 and 16 bits; else the elements' own. Specialize it for types of
// yours.
template <class T, size_t kBytes = sizeof(T)>
struct Sum {
  using type = T;
};
template <class T>
struct Sum<T, 1> {
  using type = float;
};
template <class T>
struct Sum<T, 2> {
  using type = float;
};
template <>
struct Sum<char, 1> {
  using type = char;
};
template <>
struct Sum<signed char, 1> {
  using type = signed char;
};
template <>
struct Sum<unsigned char, 1> {
  using type = unsigned char;
};
template <>
struct Sum<short, 2> {
  using type = short;
};
template <>
struct Sum<unsigned short, 2> {
  using type = unsigned short;
};

// Adds up the elements of all ranks of the team, in the order of their places: out[i] is the sum of
// all ranks' in[i], rounded once. out is this rank's and may be in.local().
template <class Coop, class T>
__device__ void sumOfAll(Coop coop, T* out, SymPtr<T> in, size_t count) {
  using Accumulator = typename Sum<T>::type;
  constexpr int kLanes = sizeof(T) < 16 && 16 % sizeof(T) == 0 ? 16 / sizeof(T) : 1;
  const int team = in.team();
  size_t done = 0;
  // Stretches of ranks begin at multiples of 16, so all ranks' elements are aligned as the first's.
  if (kLanes > 1 && (((uintptr_t)out | (uintptr_t)in.peer(0)) & 15) == 0) {
    struct alignas(16) Vector {
      T of[kLanes];
    };
    const size_t vectors = count / kLanes;
    for (size_t i = coop.rank(); i < vectors; i += coop.size()) {
      Vector v = ((const Vector*)in.peer(0))[i];
      Accumulator sum[kLanes];
#pragma unroll
      for (int k = 0; k < kLanes; k++) sum[k] = (Accumulator)v.of[k];
      for (int p = 1; p < team; p++) {
        v = ((const Vector*)in.peer(p))[i];
#pragma unroll
        for (int k = 0; k < kLanes; k++) sum[k] = sum[k] + (Accumulator)v.of[k];
      }
#pragma unroll
      for (int k = 0; k < kLanes; k++) v.of[k] = (T)sum[k];
      ((Vector*)out)[i] = v;
    }
    done = vectors * kLanes;
  }
  for (size_t i = done + coop.rank(); i < count; i += coop.size()) {
    Accumulator sum = (Accumulator)in.peer(0)[i];
    for (int p = 1; p < team; p++) sum = sum + (Accumulator)in.peer(p)[i];
    out[i] = (T)sum;
  }
}

// Reduce-scatter: out[i] is the sum of all ranks' in[place * count + i], with this rank's place. All
// ranks have written their elements before, and wait at a barrier before they write them again.
template <class Coop, class T>
__device__ void reduceScatter(Coop coop, T* out, SymPtr<T> in, size_t count) {
  sumOfAll(coop, out, in + (ptrdiff_t)(in.place() * count), count);
}

// ---- Puts, gets, signals and waits between any ranks (NCCL's GIN) ----

// Kernels load and store the windows of the team's ranks themselves. What other ranks have to do with goes into a ring,
// out of which the communicator's proxy thread sends it over the network.
//
// What one group of threads puts to a rank arrives there in order, and a signal after the data of the
// puts before it. A get of the group from that rank has the data of the puts before it. Puts and gets of
// different groups, and with different ranks, are not ordered. All threads of a
// group call with the same arguments and get the same answer: false if something stays undone at the
// deadline, or at once when the communicator has failed or is closed. DeviceCommunicator's
// kernelTimeout() then says in Java what was waited for.
class Gin {
 public:
  __device__ explicit Gin(const nccl4jDeviceCommunicator& c) : c_(c) {}

  // Puts bytes of this rank's part of a window into a rank's part of a window, and then raises the
  // rank's signal by one; -1 raises none. The source must stay as it is until a flush.
  template <class Coop>
  __device__ bool put(Coop coop, int rank, const nccl4jWindow& to, size_t offset,
                      const nccl4jWindow& from, size_t fromOffset, size_t bytes, int signal,
                      uint64_t timeoutNanos) {
    coop.sync();  // all threads have written the source
    if (isNear(rank)) {
      copy(coop, peerPointer<char>(to, rank - c_.teamFirst, offset),
           localPointer<char>(from, fromOffset), bytes);
      coop.sync();
      if (coop.rank() == 0 && signal >= 0) raiseNear(rank, signal);
      return true;
    }
    if (bytes == 0 && signal < 0) return true;
    bool posted = true;
    if (coop.rank() == 0)
      posted = post({0, rank, signal, bytes == 0 ? 0 : to.number, offset,
                     bytes == 0 ? 0 : from.number, fromOffset, bytes, kPut},
                    timeoutNanos);
    return coop.all(posted);
  }

  // The same with elements.
  template <class Coop, class T>
  __device__ bool put(Coop coop, int rank, SymPtr<T> to, SymPtr<T> from, size_t count, int signal,
                      uint64_t timeoutNanos) {
    return put(coop, rank, to.window(), to.offset(), from.window(), from.offset(),
               count * sizeof(T), signal, timeoutNanos);
  }

  // Gets bytes of a rank's part of a window into this rank's part of a window. The data are there after
  // a flush, and must stay there as they are until then. The rank may deregister the window only after
  // this rank's flush, of which a signal or a barrier tells it.
  template <class Coop>
  __device__ bool get(Coop coop, int rank, const nccl4jWindow& from, size_t offset,
                      const nccl4jWindow& to, size_t toOffset, size_t bytes, uint64_t timeoutNanos) {
    coop.sync();  // all threads have read the target
    if (isNear(rank)) {
      copy(coop, localPointer<char>(to, toOffset),
           peerPointer<char>(from, rank - c_.teamFirst, offset), bytes);
      coop.sync();
      return true;
    }
    if (bytes == 0) return true;
    bool posted = true;
    if (coop.rank() == 0)
      posted = post({0, rank, -1, from.number, offset, to.number, toOffset, bytes, kGet}, timeoutNanos);
    return coop.all(posted);
  }

  // The same with elements.
  template <class Coop, class T>
  __device__ bool get(Coop coop, int rank, SymPtr<T> from, SymPtr<T> to, size_t count,
                      uint64_t timeoutNanos) {
    return get(coop, rank, from.window(), from.offset(), to.window(), to.offset(), count * sizeof(T),
               timeoutNanos);
  }

  // Raises a rank's signal by one.
  template <class Coop>
  __device__ bool signal(Coop coop, int rank, int signal, uint64_t timeoutNanos) {
    return put(coop, rank, c_.resources, 0, c_.resources, 0, 0, signal, timeoutNanos);
  }

  // How often all ranks have raised this rank's signal since the device communicator was created. What
  // they put before is visible to the calling thread.
  __device__ uint64_t signals(int signal) const {
    uint64_t count = load(nearSignal(c_.resources.place, signal), Order::acquire);
    if (c_.gin.slots != 0) count += load(&ring()->signals[signal], Order::acquire);
    return count;
  }

  // Waits until a signal has been raised so often since the device communicator was created.
  template <class Coop>
  __device__ bool waitSignal(Coop coop, int signal, uint64_t least, uint64_t timeoutNanos) {
    bool raised = true;
    if (coop.rank() == 0) {
      Deadline deadline(timeoutNanos);
      while (raised && signals(signal) < least) raised = goesOn(deadline, kSignal, signal);
    }
    return coop.all(raised);
  }

  // Waits until the sources of all puts that kernels of this rank began before can be written again, and
  // the data of all gets are in this rank's windows.
  template <class Coop>
  __device__ bool flush(Coop coop, uint64_t timeoutNanos) {
    return awaitAll(coop, c_.gin.slots == 0 ? nullptr : &ring()->flushed, kFlush, timeoutNanos);
  }

  // Waits until the data of all puts and gets that kernels of this rank began before are in the windows,
  // and their signals are raised.
  template <class Coop>
  __device__ bool quiet(Coop coop, uint64_t timeoutNanos) {
    __threadfence_system();  // stores to ranks of the team
    return awaitAll(coop, c_.gin.slots == 0 ? nullptr : &ring()->arrived, kQuiet, timeoutNanos);
  }

 private:
  // As DeviceCommunicator.java reads them.
  static constexpr uint64_t kPut = 0, kGet = 1;
  static constexpr uint64_t kFull = 1, kSignal = 2, kFlush = 3, kQuiet = 4;

  __device__ bool isNear(int rank) const {
    return rank >= c_.teamFirst && rank < c_.teamFirst + c_.resources.team;
  }
  __device__ nccl4jGinRing* ring() const { return (nccl4jGinRing*)c_.gin.ring; }
  __device__ uint64_t* nearSignal(int place, int signal) const {
    return peerPointer<uint64_t>(c_.resources, place, c_.gin.signals) + signal;
  }
  __device__ unsigned long long* claimed() const {
    return localPointer<unsigned long long>(c_.resources, c_.gin.claimed);
  }

  __device__ void raiseNear(int rank, int signal) const {
    asm volatile("red.release.sys.global.add.u64 [%0], %1;" ::"l"(
                     nearSignal(rank - c_.teamFirst, signal)),
                 "l"(1ull)
                 : "memory");
  }

  // False when a wait has to end. The state lies in the host's memory, which takes long to read, so
  // the short waits for ranks of the team look there seldom.
  __device__ bool goesOn(Deadline& deadline, uint64_t problem, int detail) const {
    const bool over = deadline.isOver();
    if (c_.gin.ring == 0) return !over;
    if (over) {
      store(&ring()->problem, problem << 32 | (uint32_t)detail, Order::relaxed);
      return false;
    }
    return (c_.gin.slots == 0 && !deadline.isClockRead()) ||
           load(&ring()->state, Order::relaxed) == 0;
  }

  // One thread. Claims a place and fills it; the proxy waits for places in their order.
  __device__ bool post(nccl4jGinDescriptor put, uint64_t timeoutNanos) const {
    const uint64_t slots = c_.gin.slots;
    Deadline deadline(timeoutNanos);
    unsigned long long at = load((uint64_t*)claimed(), Order::relaxed);
    for (;;) {
      // Acquired: the proxy has read what was in the place.
      if (at - load(&ring()->taken, Order::acquire) < slots) {
        const unsigned long long seen = atomicCAS(claimed(), at, at + 1);
        if (seen == at) break;
        at = seen;
      } else {
        if (!goesOn(deadline, kFull, put.rank)) return false;
        at = load((uint64_t*)claimed(), Order::relaxed);
      }
    }
    nccl4jGinDescriptor* place =
        (nccl4jGinDescriptor*)(c_.gin.ring + c_.gin.descriptors) + (at & (slots - 1));
    place->rank = put.rank;
    place->signal = put.signal;
    place->window = put.window;
    place->offset = put.offset;
    place->sourceWindow = put.sourceWindow;
    place->sourceOffset = put.sourceOffset;
    place->bytes = put.bytes;
    place->kind = put.kind;
    __threadfence_system();  // the source too
    store(&place->sequence, at + 1, Order::release);
    return true;
  }

  template <class Coop>
  __device__ bool awaitAll(Coop coop, const uint64_t* word, uint64_t problem,
                           uint64_t timeoutNanos) const {
    coop.sync();
    bool over = true;
    if (word != nullptr && coop.rank() == 0) {
      const uint64_t due = load((uint64_t*)claimed(), Order::relaxed);
      Deadline deadline(timeoutNanos);
      while (over && load(word, Order::acquire) < due) over = goesOn(deadline, problem, 0);
    }
    return coop.all(over);
  }

  const nccl4jDeviceCommunicator& c_;
};

}  // namespace nccl4j_device

#endif  // __CUDACC__
#endif
