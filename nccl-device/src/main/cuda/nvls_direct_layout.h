// Arguments of the kernels that copy directly between the ranks' windows through multicast. C, so that a
// test without nvcc can check it against the Java side (class NvlsDirectArguments).
#ifndef NCCL4J_NVLS_DIRECT_LAYOUT_H
#define NCCL4J_NVLS_DIRECT_LAYOUT_H

#include "direct_layout.h"

typedef struct {
  nccl4jDirectArguments direct;  // begins as those of the other direct kernels
  uint64_t sendMulticast;        // added to send: the switch's view of the same place
  uint64_t recvMulticast;
  uint64_t resourcesMulticast;   // the switch's view of the library's own window
  int32_t nHeads;
  int32_t headRank;              // this rank's number among the heads, or -1
} nccl4jNvlsDirectArguments;

#endif
