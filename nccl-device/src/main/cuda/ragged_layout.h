// Arguments of the kernels of exchanges whose counts lie in device memory. C, so that a test without nvcc can check it
// against the Java side (classes RaggedArguments and RaggedSumArguments).
#ifndef NCCL4J_RAGGED_LAYOUT_H
#define NCCL4J_RAGGED_LAYOUT_H

#include "layout.h"

#define NCCL4J_RAGGED_RANKS 32  // most ranks
#define NCCL4J_RAGGED_THREADS 512  // of a block
#define NCCL4J_RAGGED_SUM_THREADS 256

typedef struct {
  nccl4jCommunicator comm;
  uint64_t send;             // elements for each rank, one rank's behind the other's; of an all-gather those for all
  uint64_t recv;             // not used
  uint64_t counts;           // elements for each rank; of an all-gather one number
  uint64_t sendElements;     // that the send buffer has room for
  uint64_t window;           // rank 0's view of the memory that the other ranks write
  uint64_t stride;           // from one rank's view to the next's
  uint64_t counted;          // offsets in the window: lines of 16 bytes, two halves of [source][nRanks + 1]: the
                             // source's counts, then its sendElements
  uint64_t lines;            // two halves of [source][lineBytes / 8]: elements in lines
  uint64_t lineBytes;        // most bytes of elements that go from one rank to another in lines; a multiple of 8
  uint64_t flags;            // uint64_t[blocks][NCCL4J_RAGGED_RANKS]: the last call for which that rank's block has
                             // stored all
  uint64_t received;         // elements by source rank; may lie in another window
  uint64_t calls;            // address of own memory: uint64_t[blocks], each block's calls so far
  uint64_t receivedCounts;   // address: [nRanks], elements from each rank
  uint64_t receivedOffsets;  // address: [nRanks + 1], each rank's first element, then all elements
  uint64_t maxCount;         // most elements from one rank to one rank
  uint64_t maxReceived;      // most elements from all ranks to one rank
  uint32_t elementBytes;
  uint32_t wide;             // 1: counts and offsets are int64_t; 0: int32_t
  uint32_t gathers;          // 1: an all-gather
  uint32_t keepsCounts;      // 1: no rank writes into the memory of the counts
  uint32_t combines;         // 1: the all-to-all of a reduce-scatter: all ranks have the same counts
  uint32_t signature;        // of the call, in lines
} nccl4jRaggedArguments;

// Of the kernel that combines what the all-to-all of a reduce-scatter has brought.
typedef struct {
  nccl4jCommunicator comm;
  uint64_t send;     // the copies, one behind the other
  uint64_t recv;     // their combination; may be the first copy
  uint64_t counted;  // address: elements of a copy
  uint32_t wide;     // 1: that is an int64_t; 0: an int32_t
  uint32_t values;   // numbers of an element
  uint32_t copies;   // as many as ranks
  uint32_t op;
} nccl4jRaggedSumArguments;

#endif
