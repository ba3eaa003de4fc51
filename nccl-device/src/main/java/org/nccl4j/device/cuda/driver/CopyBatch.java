package org.nccl4j.device.cuda.driver;

import org.nccl4j.device.bind.Offheap;

/** The arguments of cuMemcpyBatchAsync, outside the heap. Owned by the thread that launches. */
public final class CopyBatch {
  private static final int ATTRIBUTE_BYTES = 24; // CUmemcpyAttributes
  private static final int IN_STREAM_ORDER = 1; // CU_MEMCPY_SRC_ACCESS_ORDER_STREAM
  private static final int BESIDE_KERNELS = 1; // CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE
  private static final int FLAGS = 20;

  private final int most;
  private final OffheapPool pool;
  private Offheap block; // null once it is discarded
  private int count;

  /** Creates a batch of at most this many copies in a block of a pool. */
  public CopyBatch(int most, OffheapPool pool) {
    this.most = most;
    this.pool = pool;
    // Targets, sources, sizes, the attribute, the index of its first copy, of a copy that failed.
    block = pool.take(3 * 8 * most + ATTRIBUTE_BYTES + 16);
    int attribute = 3 * 8 * most;
    block.putInt(attribute, IN_STREAM_ORDER).putInt(attribute + FLAGS, BESIDE_KERNELS);
  }

  /** Gives the block back: the driver has read it at the call. */
  public void discard() {
    if (block != null) {
      pool.give(block);
      block = null;
    }
  }

  public void clear() {
    count = 0;
  }

  public void add(long target, long source, long bytes) {
    block.putLong(8 * count, target);
    block.putLong(8 * (most + count), source);
    block.putLong(8 * (2 * most + count), bytes);
    count++;
  }

  public long count() {
    return count;
  }

  public long target(int copy) {
    return block.getLong(8 * copy);
  }

  public long source(int copy) {
    return block.getLong(8 * (most + copy));
  }

  public long size(int copy) {
    return block.getLong(8 * (2 * most + copy));
  }

  long targets() {
    return block.address();
  }

  long sources() {
    return block.address() + 8L * most;
  }

  long sizes() {
    return block.address() + 16L * most;
  }

  long attributes() {
    return block.address() + 24L * most;
  }

  long attributeIndices() {
    return attributes() + ATTRIBUTE_BYTES;
  }

  long failed() {
    return attributeIndices() + 8;
  }
}
