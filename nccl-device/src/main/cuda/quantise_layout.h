// The arguments of the kernels of quantised sums, shared with Java (class QuantisedPlans). C, so that a test
// without nvcc can check it.
#ifndef NCCL4J_QUANTISE_LAYOUT_H
#define NCCL4J_QUANTISE_LAYOUT_H

#include "layout.h"

#define NCCL4J_QUANTISE_THREADS 256  // of a block

// Parts as QuantisedWork.Parts has them: each the codes of its blocks, then a float for each block.
typedef struct {
  nccl4jCommunicator comm;
  uint64_t send;         // the buffers; the only fields that differ between launches of a plan
  uint64_t recv;
  uint64_t residual;     // float for each element of all parts, or 0
  uint64_t count;        // elements of all parts
  uint64_t part;         // elements of a part; the last may have fewer
  uint64_t partBytes;
  uint64_t blocks;       // of a part
  uint64_t copyBytes;    // from a copy of the elements of all parts to the next
  uint32_t nParts;
  uint32_t block;        // elements of a block: a multiple of 32, at most 128
  uint32_t int8;         // 1 for codes of int8, 0 for fp8
  uint32_t divisor;      // of the sum; 1 for none
  uint32_t quantises;    // 1 if the sum is quantised to a part, 0 if it is stored as elements
  uint32_t index;        // the rank's part
  uint32_t copies;       // of the elements, which are added before they are quantised; at least 1
  uint32_t pad;
} nccl4jQuantiseArguments;

#endif
