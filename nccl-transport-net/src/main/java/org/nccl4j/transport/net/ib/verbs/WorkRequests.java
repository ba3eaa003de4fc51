package org.nccl4j.transport.net.ib.verbs;

import static org.nccl4j.transport.net.ib.verbs.VerbsLayout.*;

import org.nccl4j.device.HotPath;
import org.nccl4j.device.bind.Offheap;

/**
 * A chain of send requests with one piece of local memory each, built in place and posted at once.
 * Owned by one thread at a time; free again when the post has returned.
 */
public final class WorkRequests {
  private static final int EACH = SEND_WR_BYTES + SGE_BYTES;

  private final Offheap block;
  private final int most;
  private int count;

  public WorkRequests(int most) {
    this.most = most;
    block = new Offheap(most * EACH + Long.BYTES);
  }

  /** Begins a new chain. */
  @HotPath
  public WorkRequests begin() {
    count = 0;
    return this;
  }

  /** Adds a write of local memory to the peer's. */
  @HotPath
  public WorkRequests write(
      long from, int bytes, int localKey, long to, int remoteKey, long id, boolean signaled) {
    add(WR_RDMA_WRITE, from, bytes, localKey, to, remoteKey, id, signaled);
    return this;
  }

  /** Adds a write that also ends one of the peer's receives, giving it 32 bits. */
  @HotPath
  public WorkRequests writeImmediate(
      long from, int bytes, int localKey, long to, int remoteKey, long id, int immediate) {
    int at = add(WR_RDMA_WRITE_WITH_IMM, from, bytes, localKey, to, remoteKey, id, true);
    block.putInt(at + SEND_WR_IMM_DATA, Integer.reverseBytes(immediate));
    return this;
  }

  /** Adds a read of the peer's memory into local memory. */
  @HotPath
  public WorkRequests read(long to, int bytes, int localKey, long from, int remoteKey, long id) {
    add(WR_RDMA_READ, to, bytes, localKey, from, remoteKey, id, true);
    return this;
  }

  private int add(
      int opcode,
      long local,
      int bytes,
      int localKey,
      long remote,
      int remoteKey,
      long id,
      boolean signaled) {
    int at = count * EACH;
    int sge = at + SEND_WR_BYTES;
    if (count > 0) {
      block.putLong(at - EACH + SEND_WR_NEXT, block.address() + at);
    }
    count++;
    block
        .putLong(at + SEND_WR_WR_ID, id)
        .putLong(at + SEND_WR_NEXT, 0)
        .putLong(at + SEND_WR_SG_LIST, block.address() + sge)
        .putInt(at + SEND_WR_NUM_SGE, bytes == 0 ? 0 : 1)
        .putInt(at + SEND_WR_OPCODE, opcode)
        .putInt(at + SEND_WR_SEND_FLAGS, signaled ? SEND_SIGNALED : 0)
        .putLong(at + SEND_WR_REMOTE_ADDR, remote)
        .putInt(at + SEND_WR_RKEY, remoteKey)
        .putLong(sge + SGE_ADDR, local)
        .putInt(sge + SGE_LENGTH, bytes)
        .putInt(sge + SGE_LKEY, localKey);
    return at;
  }

  public long address() {
    return block.address();
  }

  /** Returns the address where the library writes which request it did not take. */
  public long bad() {
    return block.address() + (long) most * EACH;
  }
}
