// Arguments of the kernels that copy directly between the ranks' buffers. C, so that a test without
// nvcc can check it against the Java side (class DirectPlans).
#ifndef NCCL4J_DIRECT_LAYOUT_H
#define NCCL4J_DIRECT_LAYOUT_H

#include "layout.h"

// Blocks and ranks that have barrier flags.
#define NCCL4J_DIRECT_BLOCKS 128
#define NCCL4J_DIRECT_RANKS 128

// Threads of a block.
#define NCCL4J_DIRECT_THREADS 512

// Bytes of a group of four lines of LL128, and those of them that are data.
#define NCCL4J_DIRECT_GROUP_BYTES 512
#define NCCL4J_DIRECT_GROUP_DATA 480

enum nccl4jDirectOperation {
  DIRECT_BROADCAST,
  DIRECT_REDUCE,
  DIRECT_ALL_GATHER,
  DIRECT_REDUCE_SCATTER,
  DIRECT_ALL_REDUCE,
  DIRECT_ALL_TO_ALL,
  DIRECT_SCATTER,
  DIRECT_GATHER
};

typedef struct {
  nccl4jCommunicator comm;
  uint64_t send;       // the buffers; the only fields that differ between launches of a plan
  uint64_t recv;
  uint64_t sendFlat;   // added to send: rank 0's view of the same place, if it lies in a window
  uint64_t recvFlat;
  uint64_t stride;     // from one rank's view of a window to the next's
  uint64_t resources;  // rank 0's view of the library's own window
  uint64_t flags;      // offsets in that: u64[NCCL4J_DIRECT_BLOCKS][NCCL4J_DIRECT_RANKS]
  uint64_t epoch;      // u32[NCCL4J_DIRECT_BLOCKS] number of direct kernels so far, one copy per block
  uint64_t lines;      // two halves, each with lineBytes for each rank's lines
  uint64_t lineBytes;
  uint64_t counts;     // u64 signals sent to each rank, then u64 signals awaited from each
  uint64_t bytes;      // of count elements
  uint32_t operation;
  uint32_t op;
  uint32_t root;
  uint32_t twoShot;
} nccl4jDirectArguments;

typedef struct {
  nccl4jDirectArguments direct;
  uint32_t awaited[NCCL4J_DIRECT_RANKS];  // signals to wait for, from each rank
} nccl4jAwaitArguments;

enum nccl4jBesidePhases { BESIDE_BEGIN = 1, BESIDE_END = 2, BESIDE_MOVE = 4 };

#define NCCL4J_BESIDE_MOVERS 24  // most movers of a reduce-scatter
#define NCCL4J_BESIDE_COPIES 64  // a copy's number is below this

// The words of launches beside copy engines, from nccl4jBesideArguments.engine on.
enum nccl4jBesideWords {
  BESIDE_GO = 0,         // u32: the last launch whose copies may begin
  BESIDE_ENDED = 128,    // u32: ... whose copies have ended; written by the own stream
  BESIDE_CAME = 256,     // u32: NCCL4J_BESIDE_COPIES times the other rank's launch, plus its arrived copies
  BESIDE_THEIRS = 384,   // two u64 in turn: above the kernel's number, below the other's launch
  BESIDE_ARRIVED = 416,  // u32: number of the last kernel whose engine copies have all arrived
  BESIDE_PACE = 448,     // u64: nanoseconds per MiB until the kernel should start its last bytes
  BESIDE_GIVEN = 464,    // u32: the other rank's last launch whose sums have all arrived
  BESIDE_SUMMED = 480,   // u32: NCCL4J_BESIDE_COPIES times the launch, plus its copies that all blocks have summed
  BESIDE_UNITS = 512,    // u64 for each mover: above the kernel's number, below the arrived units
  BESIDE_BLOCKS = 704,   // u32 for each copy: blocks that have summed it
  BESIDE_BYTES = 1024    // of all words
};

// Arguments of the kernels that work beside copy engines, between two ranks. Engines move the first part
// of a rank's data for the other, in copies. The kernel moves the rest.
typedef struct {
  nccl4jDirectArguments direct;  // begins as those of the other direct kernels
  uint64_t engine;       // offset in the library's own window: words that streams wait for and write
  uint64_t engineBytes;  // first bytes, which engines move
  uint64_t chunk;        // bytes of the smallest copy
  uint64_t most;         // bytes of the largest copy; if that is not the smallest, copies shrink
  uint64_t head;         // following bytes, which an all-gather's kernel moves at once
  uint64_t unit;         // bytes that a mover of a reduce-scatter moves between reports
  uint32_t number;       // of this launch among launches with engines, from 1; 0 if it has none
  uint32_t phases;       // nccl4jBesidePhases
  uint32_t movers;       // the first blocks of a reduce-scatter
  uint32_t gives;        // 1 if engines also bring an all-reduce's sums to the other rank
} nccl4jBesideArguments;

#endif
