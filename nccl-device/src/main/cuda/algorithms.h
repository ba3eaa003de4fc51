// The algorithms over connections, a row each: everything that names one of them is made from the table.
// C in front, so that a test without nvcc can check the numbers against class Algorithm.
#ifndef NCCL4J_ALGORITHMS_H
#define NCCL4J_ALGORITHMS_H

// ROW(NUMBER, KERNEL, FUNCTION, PEERS, FAMILIES), in the order of class Algorithm:
//   NUMBER    the name there
//   KERNEL    the same in the names of kernels
//   FUNCTION  the schedule
//   PEERS     the ranks in the fan
//   FAMILIES  those that have its kernels: ALL, or REDUCING
#define NCCL4J_ALGORITHMS(ROW)                              \
  ROW(TREE, tree, tree, PARENT_AND_CHILDREN, REDUCING)      \
  ROW(RING, ring, ring, NEIGHBOURS, ALL)                    \
  ROW(ONE_SHOT, one_shot, oneShot, ALL_OTHERS, ALL)         \
  ROW(TWO_SHOT, two_shot, twoShot, ALL_OTHERS, REDUCING)

#define NCCL4J_NUMBER(NUMBER, KERNEL, FUNCTION, PEERS, FAMILIES) NUMBER,
enum nccl4jAlgorithm { NCCL4J_ALGORITHMS(NCCL4J_NUMBER) };
#undef NCCL4J_NUMBER

// The fan of an algorithm.
enum nccl4jPeers { NEIGHBOURS, PARENT_AND_CHILDREN, ALL_OTHERS };

#ifdef __CUDACC__
#include "one_shot.cuh"
#include "ring.cuh"
#include "tree.cuh"
#include "two_shot.cuh"
#endif

#endif
