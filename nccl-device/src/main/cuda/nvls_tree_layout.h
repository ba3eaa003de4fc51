// Arguments of NVLS between machines. C, so that a test without nvcc can check it against the Java
// side (class NvlsTreeArguments).
#ifndef NCCL4J_NVLS_TREE_LAYOUT_H
#define NCCL4J_NVLS_TREE_LAYOUT_H

#include "layout.h"

#define NCCL4J_NVLS_TREES 2
#define NCCL4J_NVLS_TREE_THREADS 512  // of a block
#define NCCL4J_NVLS_TREE_ENDS 3

// A head's place in a tree of the heads of its number: its parent, and two children.
typedef struct {
  nccl4jPeer ends[NCCL4J_NVLS_TREE_ENDS];
  int32_t ranks[NCCL4J_NVLS_TREE_ENDS];  // -1 if there is none
  uint32_t pad;
} nccl4jNvlsTree;

typedef struct {
  nccl4jNvlsArguments nvls;  // its views are those of this machine's ranks
  int32_t nMembers;          // these ranks
  int32_t member;            // this rank's number among them
  uint16_t memberRanks[NCCL4J_NVLS_HEADS];
  nccl4jNvlsTree trees[NCCL4J_NVLS_TREES];
} nccl4jNvlsTreeArguments;

#endif
