// The types of elements, a row each: everything that names one of them is made from the table. The Makefile
// reads it too, so a row is a line. C in front, so that a test without nvcc can check it against class DataType.
#ifndef NCCL4J_TYPES_H
#define NCCL4J_TYPES_H

// TYPE(FAMILY, ELEMENT, ARITHMETIC, SWITCH, PTX), in the order of class DataType:
//   FAMILY      the type's label there, which is in the names of fatbins
//   ELEMENT     the type in memory
//   ARITHMETIC  the type in which elements are combined
//   SWITCH      the group of instructions by which the switch combines it (multimem.cuh), or NOTHING
//   PTX         the type in these instructions
#define NCCL4J_TYPES(TYPE)                                                        \
  TYPE(int8, int8_t, int8_t, NOTHING, "")                                         \
  TYPE(uint8, uint8_t, uint8_t, NOTHING, "")                                      \
  TYPE(int32, int32_t, int32_t, WORDS, "s32")                                     \
  TYPE(uint32, uint32_t, uint32_t, WORDS, "u32")                                  \
  TYPE(int64, long long, long long, LONGS, "s64")                                 \
  TYPE(uint64, unsigned long long, unsigned long long, LONGS, "u64")              \
  TYPE(half, __half, float, PAIRS, "f16x2")                                       \
  TYPE(float, float, float, FLOATS, "f32")                                        \
  TYPE(double, double, double, DOUBLES, "f64")                                    \
  TYPE(bfloat16, __nv_bfloat16, float, PAIRS, "bf16x2")                           \
  TYPE(f8e4m3, __nv_fp8_e4m3, float, QUADS, "e4m3x4")                             \
  TYPE(f8e5m2, __nv_fp8_e5m2, float, QUADS, "e5m2x4")

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>

namespace nccl4j {

// The type of a family. The family that only copies takes its elements for bytes.
using family_copy = uint8_t;
#define NCCL4J_FAMILY(FAMILY, ELEMENT, ARITHMETIC, SWITCH, PTX) using family_##FAMILY = ELEMENT;
NCCL4J_TYPES(NCCL4J_FAMILY)
#undef NCCL4J_FAMILY

// Arithmetic of a type: in Wide, whose result is rounded to the type. A Wide that can be a half is
// floating-point.
template <class T>
struct Arithmetic;

#define NCCL4J_ARITHMETIC(FAMILY, ELEMENT, ARITHMETIC, SWITCH, PTX)                 \
  template <>                                                                       \
  struct Arithmetic<ELEMENT> {                                                      \
    using Wide = ARITHMETIC;                                                        \
    static constexpr bool floating = static_cast<Wide>(0.5) != 0;                    \
    __device__ static Wide widen(ELEMENT a) { return static_cast<Wide>(a); }        \
    __device__ static ELEMENT narrow(Wide a) { return static_cast<ELEMENT>(a); }    \
  };
NCCL4J_TYPES(NCCL4J_ARITHMETIC)
#undef NCCL4J_ARITHMETIC

}  // namespace nccl4j
#endif

#endif
