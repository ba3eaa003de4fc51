// Access to all ranks' memories at once, in two forms with the same members: by the switch (PTX
// multimem, from compute capability 9.0 on), and emulated, one rank's memory after the other. An
// offset is the same in all memories: it lies in the buffers of nvls.cuh, or it is an address of a
// user, and the bases are the distances from it.
#pragma once
#include "reduce.cuh"

namespace nccl4j {

// Instructions for the switch. It combines only some types and operators (Nvls.has in Java).
namespace multimem {

__device__ __forceinline__ u64 leastWordAcquire(u64 p) {
  u64 v;
  asm volatile("multimem.ld_reduce.acquire.sys.global.min.u64 %0, [%1];"
               : "=l"(v)
               : "l"(p)
               : "memory");
  return v;
}

__device__ __forceinline__ void storeWordRelaxed(u64 p, u64 v) {
  asm volatile("multimem.st.relaxed.sys.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}

// Stores 16 bytes of any type.
__device__ __forceinline__ void storePack(u64 p, Pack v) {
  asm volatile("multimem.st.relaxed.sys.global.v4.f32 [%0], {%1,%2,%3,%4};" ::"l"(p),
               "r"((u32)v.lo), "r"((u32)(v.lo >> 32)), "r"((u32)v.hi), "r"((u32)(v.hi >> 32))
               : "memory");
}

#define NCCL4J_LOAD_V4(NAME, INSTRUCTION)                                            \
  __device__ __forceinline__ Pack NAME(u64 p) {                                      \
    u32 a, b, c, d;                                                                  \
    asm volatile("multimem.ld_reduce.relaxed.sys.global." INSTRUCTION                \
                 " {%0,%1,%2,%3}, [%4];"                                             \
                 : "=r"(a), "=r"(b), "=r"(c), "=r"(d)                                \
                 : "l"(p)                                                            \
                 : "memory");                                                        \
    return {a | (u64)b << 32, c | (u64)d << 32};                                     \
  }

#define NCCL4J_LOAD_32(NAME, INSTRUCTION)                                            \
  __device__ __forceinline__ Pack NAME(u64 p) {                                      \
    u32 v[4];                                                                        \
    _Pragma("unroll") for (int i = 0; i < 4; i++)                                    \
        asm volatile("multimem.ld_reduce.relaxed.sys.global." INSTRUCTION            \
                     " %0, [%1];"                                                    \
                     : "=r"(v[i])                                                    \
                     : "l"(p + 4 * i)                                                \
                     : "memory");                                                    \
    return {v[0] | (u64)v[1] << 32, v[2] | (u64)v[3] << 32};                         \
  }

#define NCCL4J_LOAD_64(NAME, REGISTER, CONSTRAINT, INSTRUCTION)                      \
  __device__ __forceinline__ Pack NAME(u64 p) {                                      \
    union {                                                                          \
      REGISTER v;                                                                    \
      u64 word;                                                                      \
    } loaded[2];                                                                     \
    _Pragma("unroll") for (int i = 0; i < 2; i++)                                    \
        asm volatile("multimem.ld_reduce.relaxed.sys.global." INSTRUCTION            \
                     " %0, [%1];"                                                    \
                     : "=" CONSTRAINT(loaded[i].v)                                   \
                     : "l"(p + 8 * i)                                                \
                     : "memory");                                                    \
    return {loaded[0].word, loaded[1].word};                                         \
  }

// Loads 16 bytes of all memories, combined.
template <class T>
struct Load;

#define NCCL4J_LOAD(TYPE, SUM_OF, MIN_OF, MAX_OF)                                    \
  template <>                                                                        \
  struct Load<TYPE> {                                                                \
    __device__ static Pack at(u32 op, u64 p) {                                       \
      return op == MIN ? MIN_OF(p) : op == MAX ? MAX_OF(p) : SUM_OF(p);              \
    }                                                                                \
  };

// The groups of types.h. The switch only adds float and double; the planner asks for nothing else.
#define NCCL4J_LOADS_NOTHING(FAMILY, ELEMENT, PTX)
#define NCCL4J_LOADS_FLOATS(FAMILY, ELEMENT, PTX)                                    \
  NCCL4J_LOAD_V4(add_##FAMILY, "add.v4." PTX)                                        \
  NCCL4J_LOAD(ELEMENT, add_##FAMILY, add_##FAMILY, add_##FAMILY)
#define NCCL4J_LOADS_DOUBLES(FAMILY, ELEMENT, PTX)                                   \
  NCCL4J_LOAD_64(add_##FAMILY, double, "d", "add." PTX)                              \
  NCCL4J_LOAD(ELEMENT, add_##FAMILY, add_##FAMILY, add_##FAMILY)
#define NCCL4J_LOADS_PAIRS(FAMILY, ELEMENT, PTX)                                     \
  NCCL4J_LOAD_V4(add_##FAMILY, "add.acc::f32.v4." PTX)                               \
  NCCL4J_LOAD_V4(min_##FAMILY, "min.v4." PTX)                                        \
  NCCL4J_LOAD_V4(max_##FAMILY, "max.v4." PTX)                                        \
  NCCL4J_LOAD(ELEMENT, add_##FAMILY, min_##FAMILY, max_##FAMILY)
// Floats of 8 bits: from 10.0 on, by instructions of that family of GPUs alone; added in half precision.
#define NCCL4J_LOADS_QUADS(FAMILY, ELEMENT, PTX)                                     \
  NCCL4J_LOAD_V4(add_##FAMILY, "add.acc::f16.v4." PTX)                               \
  NCCL4J_LOAD_V4(min_##FAMILY, "min.v4." PTX)                                        \
  NCCL4J_LOAD_V4(max_##FAMILY, "max.v4." PTX)                                        \
  NCCL4J_LOAD(ELEMENT, add_##FAMILY, min_##FAMILY, max_##FAMILY)
#define NCCL4J_LOADS_WORDS(FAMILY, ELEMENT, PTX)                                     \
  NCCL4J_LOAD_32(add_##FAMILY, "add.u32")                                            \
  NCCL4J_LOAD_32(min_##FAMILY, "min." PTX)                                           \
  NCCL4J_LOAD_32(max_##FAMILY, "max." PTX)                                           \
  NCCL4J_LOAD(ELEMENT, add_##FAMILY, min_##FAMILY, max_##FAMILY)
#define NCCL4J_LOADS_LONGS(FAMILY, ELEMENT, PTX)                                     \
  NCCL4J_LOAD_64(add_##FAMILY, u64, "l", "add.u64")                                  \
  NCCL4J_LOAD_64(min_##FAMILY, u64, "l", "min." PTX)                                 \
  NCCL4J_LOAD_64(max_##FAMILY, u64, "l", "max." PTX)                                 \
  NCCL4J_LOAD(ELEMENT, add_##FAMILY, min_##FAMILY, max_##FAMILY)

#define NCCL4J_LOADS(FAMILY, ELEMENT, ARITHMETIC, SWITCH, PTX) \
  NCCL4J_LOADS_##SWITCH(FAMILY, ELEMENT, PTX)
NCCL4J_TYPES(NCCL4J_LOADS)

template <>
struct Load<family_copy> {  // the family that only copies has no operator
  __device__ static Pack at(u32, u64) { return {0, 0}; }
};

}  // namespace multimem

// Access by the switch. loadReduce has U packs of 16 bytes, 512 bytes apart, from the offset on.
template <class T>
class SwitchAccess {
 public:
  __device__ SwitchAccess(const nccl4jNvlsArguments& a) : base_(a.views[0]) {}
  __device__ explicit SwitchAccess(u64 base) : base_(base) {}

  // For one of several machines: the switch knows the machine's ranks.
  __device__ SwitchAccess(const nccl4jNvlsArguments& a, int, int) : SwitchAccess(a) {}

  // Number of threads that read a word of all memories together, each of some ranks.
  __device__ __forceinline__ int lookers() const { return 1; }
  __device__ __forceinline__ u64 look(int, u64 offset) const {
    return multimem::leastWordAcquire(base_ + offset);
  }

  // Stores a word; lookers() threads call it, each with its number.
  __device__ __forceinline__ void tell(int, u64 offset, u64 v) const {
    multimem::storeWordRelaxed(base_ + offset, v);
  }

  template <int U>
  __device__ __forceinline__ void loadReduce(u32 op, u64 offset, u32 left, u64 (&out)[2 * U]) const {
#pragma unroll
    for (int i = 0; i < U; i++) {
      if (512u * i >= left) continue;
      Pack v = multimem::Load<T>::at(op, base_ + offset + 512 * i);
      out[2 * i] = v.lo;
      out[2 * i + 1] = v.hi;
    }
  }

  __device__ __forceinline__ void store(u64 offset, Pack v) const {
    multimem::storePack(base_ + offset, v);
  }

  // Stores a line of LL, each word of data and flag by a store of its own: a vector store is whole
  // only for each of its elements.
  __device__ __forceinline__ void storeLine(u64 offset, u64 data, LineFlags flags) const {
    multimem::storeWordRelaxed(base_ + offset, (u32)data | (u64)flags.step << 32);
    multimem::storeWordRelaxed(base_ + offset + 8, data >> 32 | (u64)flags.call << 32);
  }

  // Orders accesses through the unicast address of memory with those through its multicast address.
  // Nothing else does.
  __device__ __forceinline__ void crossAliases() const {
    asm volatile("fence.proxy.alias;" ::: "memory");
  }

 private:
  u64 base_;
};

// Beginnings of the ranks' memories in a list.
struct ListedViews {
  const uint64_t* views;

  __device__ __forceinline__ u64 operator[](int rank) const { return views[rank]; }
};

// Beginnings of the ranks' memories at equal distances.
struct EvenViews {
  u64 first, stride;

  __device__ __forceinline__ u64 operator[](int rank) const { return first + rank * stride; }
};

template <class T, class Views = ListedViews>
class EmulatedAccess {
 public:
  __device__ EmulatedAccess(const nccl4jNvlsArguments& a) : EmulatedAccess({a.views}, a.comm) {}
  __device__ EmulatedAccess(Views views, const nccl4jCommunicator& comm)
      : views_(views), n_(comm.nRanks), first_(comm.rank) {}

  // For one of several machines: its number of ranks, and the index of this rank among them.
  __device__ EmulatedAccess(const nccl4jNvlsArguments& a, int members, int member)
      : views_({a.views}), n_(members), first_(member) {}

  __device__ __forceinline__ int lookers() const { return n_; }
  __device__ __forceinline__ u64 look(int rank, u64 offset) const {
    return loadWordAcquire((void*)(views_[rank] + offset));
  }
  __device__ __forceinline__ void tell(int rank, u64 offset, u64 v) const {
    storeWordRelaxed((void*)(views_[rank] + offset), v);
  }

  // Begins with this rank, so that the heads load from different ranks at a time. Like the switch, it adds
  // elements of 16 bits in float32.
  template <int U>
  __device__ __forceinline__ void loadReduce(u32 op, u64 offset, u32 left, u64 (&out)[2 * U]) const {
    if constexpr (kWidens<T> && U > 1) {
      // A pack at a time: its elements as floats fill the registers.
#pragma unroll
      for (int i = 0; i < U; i++) {
        u64 pack[2] = {};
        if (512u * i < left) loadReduce<1>(op, offset + 512 * i, left - 512 * i, pack);
        out[2 * i] = pack[0];
        out[2 * i + 1] = pack[1];
      }
      return;
    }
    u64 next[2 * U];
    Accumulator<T, 2 * U> sum;
    load<U>(first_, offset, left, out);
    sum.set(out, {});
    load<U>(after(first_), offset, left, next);
    int rank = after(first_);
    for (int i = 1; i < n_; i++) {
      u64 now[2 * U];
#pragma unroll
      for (int j = 0; j < 2 * U; j++) now[j] = next[j];
      rank = after(rank);
      if (i + 1 < n_) load<U>(rank, offset, left, next);
      sum.add(op, now, {});
    }
    sum.result(out);
  }

  __device__ __forceinline__ void store(u64 offset, Pack v) const {
    for (int i = 0, rank = first_; i < n_; i++, rank = after(rank))
      storePack((void*)(views_[rank] + offset), v);
  }

  __device__ __forceinline__ void storeLine(u64 offset, u64 data, LineFlags flags) const {
    for (int i = 0, rank = first_; i < n_; i++, rank = after(rank))
      nccl4j::storeLine((void*)(views_[rank] + offset), data, flags);
  }

  __device__ __forceinline__ void crossAliases() const {}

 private:
  __device__ __forceinline__ int after(int rank) const { return rank + 1 == n_ ? 0 : rank + 1; }

  template <int U>
  __device__ __forceinline__ void load(int rank, u64 offset, u32 left, u64 (&x)[2 * U]) const {
    const char* p = (const char*)views_[rank] + offset;
#pragma unroll
    for (int i = 0; i < U; i++) {
      if (512u * i >= left) continue;
      Pack v = loadPack(p + 512 * i);
      x[2 * i] = v.lo;
      x[2 * i + 1] = v.hi;
    }
  }

  Views views_;
  int n_, first_;
};

}  // namespace nccl4j
