package org.nccl4j.it.perf.nccl.bind;

/** Functions of libnccl.so.2; handles and addresses are plain longs. See nccl.h. */
public interface NcclFunctions {
  /** See nccl.h. */
  int ncclGetVersion(long version);

  /** See nccl.h. */
  int ncclGetUniqueId(long id);

  /**
   * See nccl.h. The unique id is a structure of 128 bytes that is passed by value: on x86-64 that
   * is 16 words on the stack, behind whatever is in registers. Three registers are left by the
   * other parameters, which go by in between.
   */
  int ncclCommInitRank(
      long comm,
      int nRanks,
      int rank,
      long unused0,
      long unused1,
      long unused2,
      long id0,
      long id1,
      long id2,
      long id3,
      long id4,
      long id5,
      long id6,
      long id7,
      long id8,
      long id9,
      long id10,
      long id11,
      long id12,
      long id13,
      long id14,
      long id15);

  /** See nccl.h. */
  int ncclCommDestroy(long comm);

  /** See nccl.h. */
  String ncclGetErrorString(int result);

  /** See nccl.h. */
  String ncclGetLastError(long comm);

  /** See nccl.h. */
  int ncclMemAlloc(long pointer, long size);

  /** See nccl.h. */
  int ncclMemFree(long pointer);

  /** See nccl.h. */
  int ncclCommWindowRegister(long comm, long buffer, long size, long window, int flags);

  /** See nccl.h. */
  int ncclCommWindowDeregister(long comm, long window);

  /** See nccl.h. */
  int ncclAllReduce(long send, long recv, long count, int type, int op, long comm, long stream);

  /** See nccl.h. */
  int ncclReduceScatter(
      long send, long recv, long recvCount, int type, int op, long comm, long stream);

  /** See nccl.h. */
  int ncclAllGather(long send, long recv, long sendCount, int type, long comm, long stream);

  /** See nccl.h. */
  int ncclBroadcast(long send, long recv, long count, int type, int root, long comm, long stream);

  /** See nccl.h. */
  int ncclReduce(
      long send, long recv, long count, int type, int op, int root, long comm, long stream);

  /** See nccl.h; since 2.28. */
  int ncclAlltoAll(long send, long recv, long count, int type, long comm, long stream);

  /** See nccl.h. */
  int ncclSend(long send, long count, int type, int peer, long comm, long stream);

  /** See nccl.h. */
  int ncclRecv(long recv, long count, int type, int peer, long comm, long stream);

  /** See nccl.h. */
  int ncclGroupStart();

  /** See nccl.h. */
  int ncclGroupEnd();
}
