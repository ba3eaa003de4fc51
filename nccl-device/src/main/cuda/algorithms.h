// The algorithms over connections, a row each: everything that names one of them is made from the table. The
// Makefile makes it, in schedules.h, from the row in the header of each schedule. C in front, so that a test
// without nvcc can check the numbers against class Algorithm.
#ifndef NCCL4J_ALGORITHMS_H
#define NCCL4J_ALGORITHMS_H

// NCCL4J_ALGORITHMS(ROW) has a ROW(NUMBER, KERNEL, FUNCTION, PEERS, FAMILIES) for each, in the order of class
// Algorithm:
//   NUMBER    the name there
//   KERNEL    the same in the names of kernels
//   FUNCTION  the schedule
//   PEERS     the ranks in the fan
//   FAMILIES  those that have its kernels of LL and LL128: ALL, REDUCING or NONE
#include "schedules.h"

#define NCCL4J_NUMBER(NUMBER, KERNEL, FUNCTION, PEERS, FAMILIES) NUMBER,
enum nccl4jAlgorithm { NCCL4J_ALGORITHMS(NCCL4J_NUMBER) };
#undef NCCL4J_NUMBER

// The fan of an algorithm.
enum nccl4jPeers { NEIGHBOURS, PARENT_AND_CHILDREN, ALL_OTHERS, AT_DISTANCES, ON_HOST_AND_RAIL };

#endif
