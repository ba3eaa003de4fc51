package org.nccl4j.device.host.reduce;

import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.ReductionOperator;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.kernel.KernelCommunicator.LocalReduction;

/**
 * The reduction of copies in a rank's memory by the user's function, a block of elements after the
 * other. Owned by one thread at a time.
 */
public final class LocalReducer {
  /** Bytes of the elements of a block, about; small enough for a processor's cache. */
  private static final int BLOCK_BYTES = 64 << 10;

  private final LocalReduction work;
  private final UserFunction function;
  private final int block;

  /** A reduction. */
  public LocalReducer(LocalReduction work) {
    this.work = work;
    ReductionOperator operator = work.operator();
    if (operator.combiner() == null) {
      throw new InvalidUsageException(
          ErrorId.UNSUPPORTED,
          "the reduction '%s' has no function for the host device".formatted(operator.name()),
          "add one by ReductionOperator.Builder.onHost");
    }
    this.function = new UserFunction(operator, work.type(), work.elementBytes());
    this.block = Math.max(1, BLOCK_BYTES / work.elementBytes());
  }

  /** Runs the reduction. */
  public void run(HostMemory send, HostMemory recv) {
    for (long at = 0; at < work.count(); at += block) {
      int count = (int) Math.min(block, work.count() - at);
      long offset = at * work.elementBytes();
      int bytes = count * work.elementBytes();
      recv.window(offset).put(recv.index(offset), send.window(offset), send.index(offset), bytes);
      for (int copy = 1; copy < work.copies(); copy++) {
        function.combine(recv, offset, send, copy * work.stride() + offset, recv, offset, count);
      }
    }
  }
}
