// Arguments of the kernels that pack, place and add the rows of an exchange with experts that sends and receives
// carry. C, so that a test without nvcc can check it against the Java side (class ExpertPackArguments).
#ifndef NCCL4J_EXPERT_PACK_LAYOUT_H
#define NCCL4J_EXPERT_PACK_LAYOUT_H

#include "layout.h"

#define NCCL4J_EXPERT_PACK_THREADS 512  // of a block

typedef struct {
  nccl4jCommunicator comm;
  uint64_t send;      // rows that are read
  uint64_t recv;      // rows that are written
  uint64_t items;     // int32_t[count]: the row to read for each, 0 if they follow each other; of a sum
                      // int32_t[count][topK], -1 for none
  uint64_t targets;   // int32_t[count]: the row to write for each; 0 if they follow each other
  uint64_t scales;    // float of each row written, from behind each row read; 0 for none
  uint64_t weights;   // of a sum: float[count][topK]
  uint64_t count;     // rows written
  uint64_t from;      // bytes from a row that is read to the next
  uint64_t to;        // and of those written
  uint32_t rowBytes;  // of a row's elements as written, a multiple of 16
  uint32_t groups;    // scales of a row
  uint32_t topK;
  uint32_t pad;
} nccl4jExpertPackArguments;

#endif
