// nccl4j's device API: for kernels of yours that reach other ranks' windows. Unpack it with
//   ./nccl device-headers DIR
// and compile with nvcc -I DIR. In Java, Communicator.registerWindow gives a Window whose
// deviceHandle() is a nccl4jWindow in device memory, and Communicator.createDeviceCommunicator gives
// a DeviceCommunicator whose address() is a nccl4jDeviceCommunicator in device memory: pass both to
// your kernel as pointers. Launch the same kernel on all ranks; blocks that meet at barriers must fit
// the GPU at once.
#ifndef NCCL4J_DEVICE_CUH
#define NCCL4J_DEVICE_CUH

#include <stdint.h>

#define NCCL4J_DEVICE_VERSION 2

// A window. Rank p of the team has its first byte at base + p * stride.
struct nccl4jWindow {
  uint64_t base;
  uint64_t stride;
  uint64_t size;      // bytes
  int32_t place;      // this rank's place in the team
  int32_t team;       // ranks of the team
  uint64_t multimem;  // of all ranks at once, for multimem instructions; 0 where there is none
};
static_assert(sizeof(nccl4jWindow) == 40, "as Window.java fills it");

// A communicator, as kernels see it.
struct nccl4jDeviceCommunicator {
  nccl4jWindow resources;
  int32_t rank;
  int32_t nRanks;
  int32_t teamFirst;     // lowest rank of the load/store team
  int32_t barrierCount;
  uint64_t epochs;       // offset in resources: u64[barrierCount + 1], this rank's alone
  uint64_t lines;        // offset in resources: 16 bytes [2][team][slots]
  int32_t slots;         // LL all-to-all: values for each rank
  int32_t pad;
};
static_assert(sizeof(nccl4jDeviceCommunicator) == 80, "as DeviceCommunicator.java fills it");

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
};
struct CoopWarp {
  __device__ int size() const { return 32; }
  __device__ int rank() const { return threadIdx.x & 31; }
  __device__ void sync() const { __syncwarp(); }
};
struct CoopBlock {
  __device__ int size() const { return blockDim.x; }
  __device__ int rank() const { return threadIdx.x; }
  __device__ void sync() const { __syncthreads(); }
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

__device__ __forceinline__ uint64_t nanoseconds() {
  uint64_t t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}

// ---- Barriers of the team ----

// One of the communicator's barriers, used by the same number of groups of threads on every rank,
// one for each index. Ranks that have waited see all that a rank wrote before it arrived.
template <class Coop>
class LsaBarrier {
 public:
  __device__ LsaBarrier(Coop coop, const nccl4jDeviceCommunicator& c, int index)
      : coop_(coop), c_(c), index_(index) {
    epoch_ = localPointer<uint64_t>(c.resources, c.epochs)[index];
  }

  __device__ void arrive() {
    coop_.sync();
    epoch_++;
    for (int p = coop_.rank(); p < c_.resources.team; p += coop_.size())
      if (p != c_.resources.place)
        asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(word(p, c_.resources.place)),
                     "l"(epoch_)
                     : "memory");
  }

  // False if a rank did not come in time, for some thread; then the barrier is of no further use.
  __device__ bool wait(uint64_t timeoutNanos) {
    bool here = true;
    uint64_t start = 0;
    for (int p = coop_.rank(); here && p < c_.resources.team; p += coop_.size()) {
      if (p == c_.resources.place) continue;
      for (uint32_t looks = 1;; looks++) {
        uint64_t v;
        asm volatile("ld.acquire.sys.global.u64 %0, [%1];"
                     : "=l"(v)
                     : "l"(word(c_.resources.place, p))
                     : "memory");
        if (v >= epoch_) break;
        if ((looks & 255) == 0) {
          uint64_t now = nanoseconds();
          if (start == 0) start = now;
          if (now - start > timeoutNanos) {
            here = false;
            break;
          }
        }
      }
    }
    // Before the threads meet, for the next barrier object of the same index may be any thread's.
    if (coop_.rank() == 0) localPointer<uint64_t>(c_.resources, c_.epochs)[index_] = epoch_;
    coop_.sync();
    return here;
  }

  __device__ bool sync(uint64_t timeoutNanos) {
    arrive();
    return wait(timeoutNanos);
  }

 private:
  __device__ uint64_t* word(int owner, int writer) {
    return peerPointer<uint64_t>(c_.resources, owner,
                                 128ull * (index_ * c_.resources.team + writer));
  }

  Coop coop_;
  const nccl4jDeviceCommunicator& c_;
  int index_;
  uint64_t epoch_;
};

// ---- LL all-to-all: 8 bytes at a time, without a barrier ----

// In an epoch every rank sends to every other at least one value, and receives it: that makes it safe
// to use the lines again. All threads of the block call the constructor and endEpoch.
class LLAllToAll {
 public:
  __device__ LLAllToAll(const nccl4jDeviceCommunicator& c) : c_(c) {
    epoch_ = (uint32_t)localPointer<uint64_t>(c.resources, c.epochs)[c.barrierCount] + 1;
  }

  __device__ void send(int place, int slot, uint64_t value) {
    asm volatile("st.volatile.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(
                     line(place, c_.resources.place, slot)),
                 "r"((uint32_t)value), "r"(epoch_), "r"((uint32_t)(value >> 32)), "r"(epoch_)
                 : "memory");
  }

  // False if it did not come in time.
  __device__ bool recv(int place, int slot, uint64_t& value, uint64_t timeoutNanos) {
    const char* from = line(c_.resources.place, place, slot);
    uint64_t start = 0;
    for (uint32_t looks = 1;; looks++) {
      uint4 v;
      asm volatile("ld.volatile.global.v4.u32 {%0,%1,%2,%3}, [%4];"
                   : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                   : "l"(from)
                   : "memory");
      if (v.y == epoch_ && v.w == epoch_) {
        value = (uint64_t)v.z << 32 | v.x;
        return true;
      }
      if ((looks & 255) == 0) {
        uint64_t now = nanoseconds();
        if (start == 0) start = now;
        if (now - start > timeoutNanos) return false;
      }
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
  uint32_t epoch_;
};

}  // namespace nccl4j_device

#endif  // __CUDACC__
#endif
