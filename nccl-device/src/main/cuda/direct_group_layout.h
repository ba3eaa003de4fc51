// Arguments of the kernel that runs several operations of a group in lines, side by side. C, so that a test
// without nvcc can check it against the Java side (class LineGroup).
#ifndef NCCL4J_DIRECT_GROUP_LAYOUT_H
#define NCCL4J_DIRECT_GROUP_LAYOUT_H

#include "direct_layout.h"

#define NCCL4J_GROUP_WORKS 64

// One of the operations. Parts of it are moved by blocks.
typedef struct {
  uint64_t send;
  uint64_t recv;
  uint64_t bytes;      // of count elements
  uint64_t lines;      // offset of its lines in a rank's part of a half
  uint16_t operation;
  uint16_t root;
  uint32_t op;
  uint32_t signature;
  uint16_t firstPart;
  uint16_t nParts;
} nccl4jDirectWork;

// At most 4 KiB, as the arguments of all kernels.
typedef struct {
  nccl4jDirectArguments direct;  // what is the same for all
  uint32_t nParts;               // of all operations
  uint32_t ends;                 // 0 if a further kernel has the rest of the group
  uint8_t workOf[NCCL4J_DIRECT_BLOCKS];  // the operation of a part
  nccl4jDirectWork works[NCCL4J_GROUP_WORKS];
} nccl4jDirectGroupArguments;

#endif
