// Arguments of the kernels that dispatch tokens to experts and combine their outputs. C, so that a test
// without nvcc can check it against the Java side (class ExpertArguments).
#ifndef NCCL4J_EXPERT_LAYOUT_H
#define NCCL4J_EXPERT_LAYOUT_H

#include "layout.h"

#define NCCL4J_EXPERT_THREADS 1024  // of a block
#define NCCL4J_EXPERT_RANKS 32   // most ranks
#define NCCL4J_EXPERT_LOCAL 512  // most experts of a rank
#define NCCL4J_EXPERT_CELLS 8192  // most experts of all ranks
#define NCCL4J_EXPERT_ENTRIES ((1 << 23) - 1)  // most entries of a rank
#define NCCL4J_EXPERT_GROUP 128  // elements with one scale
#define NCCL4J_EXPERT_BATCHES 16  // most batches of a block's tokens in a combine

// What a block did last: nccl4jExpertState.kind.
enum nccl4jExpertKind { EXPERT_NOTHING, EXPERT_DISPATCH, EXPERT_COMBINE };

// A block's own words, kept between kernels. Each block has a copy, so that none waits for another.
typedef struct {
  uint64_t dispatches;  // so far
  uint64_t combines;
  uint32_t kind;
  uint32_t pad;
  uint32_t batches;      // in which combine returns and adds the block's tokens, the same on all ranks
  uint32_t batchTokens;  // of each rank, of this block
  uint32_t listed[NCCL4J_EXPERT_BATCHES];  // entries of the block's list, of each batch and those before
} nccl4jExpertState;

// The parts of a call: nccl4jExpertArguments.parts. The second completes what the first has begun.
enum nccl4jExpertPart { EXPERT_SEND = 1, EXPERT_RECEIVE = 2 };

typedef struct {
  nccl4jCommunicator comm;
  uint64_t send;          // dispatch: tokens; combine: the experts' outputs
  uint64_t recv;          // combine: result
  uint64_t experts;       // dispatch: int32_t[tokenCount][topK], -1 for none
  uint64_t weights;       // dispatch: float[tokenCount][topK]
  uint64_t window;        // rank 0's view of the fixed buffers that the other ranks write
  uint64_t stride;        // from one rank's view to the next's
  uint64_t dispatchFlags; // offsets in the window: uint64_t[blocks][NCCL4J_EXPERT_RANKS]; without wholeLines
  uint64_t combineFlags;  // likewise
  uint64_t beginFlags;    // likewise
  uint64_t messages;      // two halves, of each rank and block messageBytes: lines (expert_count.cuh)
  uint64_t messageBytes;
  uint64_t tokens;        // two halves, of each rank maxTokens rows of stagedRow bytes: lines (expert_lines.cuh)
  uint64_t stagedRow;
  uint64_t outputs;       // maxTokens * topK rows of rowBytes
  uint64_t state;         // addresses of own memory: nccl4jExpertState[blocks]
  uint64_t lists;         // uint64_t[blocks][listCapacity]: a received row above, the entry it is of below
  uint64_t listCapacity;  // nRanks * blockTokens * topK
  uint64_t places;        // uint32_t[blocks][listCapacity]: of the entries of a block's tokens, by source rank
  uint64_t keptExperts;   // int32_t[maxTokens][topK] of the last dispatch, and its weights
  uint64_t keptWeights;
  uint64_t keptCount;     // uint32_t, its number of tokens
  uint64_t received;      // rows of wireRow bytes by local expert, source rank, token and k
  uint64_t scales;        // float[rows][hidden / NCCL4J_EXPERT_GROUP]
  uint64_t counts;        // int32_t[localExperts][nRanks]
  uint64_t offsets;       // int32_t[localExperts + 1]: each expert's first row
  uint64_t rows;          // most rows received
  uint64_t sentRows;      // combine: rows that the experts' outputs have room for
  uint32_t rowBytes;      // of a token in its own type, a multiple of 16
  uint32_t wireRow;       // of a token on its way, a multiple of 16
  uint32_t hidden;
  uint32_t maxTokens;
  uint32_t blockTokens;   // most tokens of a block of each rank
  uint32_t topK;
  uint32_t nExperts;
  uint32_t localExperts;
  uint32_t countsOfLine;  // numbers of entries in a line of a message
  uint32_t tokenCount;
  uint32_t wholeLines;    // 1 if the links keep 128 bytes whole that a warp stores at once
  uint32_t parts;         // of the call: nccl4jExpertPart
  uint32_t pace;          // clock cycles of a block from one store of a warp to another rank to the next, 0 for none
  uint32_t resultRows;    // combine: rows that the result has room for
} nccl4jExpertArguments;

#endif
