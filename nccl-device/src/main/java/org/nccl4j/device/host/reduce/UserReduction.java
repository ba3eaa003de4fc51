package org.nccl4j.device.host.reduce;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.nccl4j.device.DataType;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.ReductionOperator;
import org.nccl4j.device.host.memory.HostMemory;

/** A reduction by the user's function. */
final class UserReduction implements Reduction {
  private final DataType type;
  private final ReductionOperator operator;

  UserReduction(DataType type, ReductionOperator operator) {
    this.type = type;
    this.operator = operator;
  }

  @Override
  public void reduce(
      HostMemory a,
      long aOffset,
      HostMemory b,
      long bOffset,
      HostMemory target,
      long targetOffset,
      int count) {
    try {
      operator
          .combiner()
          .combine(
              view(a, aOffset, count),
              view(b, bOffset, count),
              view(target, targetOffset, count),
              count,
              type);
    } catch (RuntimeException e) {
      throw new InvalidUsageException(
          ErrorId.USER_FUNCTION,
          "the user-supplied reduction %s failed on %d elements of %s (%s)"
              .formatted(operator.name(), count, type.label(), e),
          "correct the function",
          e);
    }
  }

  private ByteBuffer view(HostMemory memory, long offset, int count) {
    return memory
        .window(offset)
        .slice(memory.index(offset), count * type.bytes())
        .order(ByteOrder.nativeOrder());
  }

  @Override
  public boolean hasPrepare() {
    return false;
  }

  @Override
  public void prepare(
      HostMemory source, long sourceOffset, HostMemory target, long targetOffset, int count) {
    target
        .window(targetOffset)
        .put(
            target.index(targetOffset),
            source.window(sourceOffset),
            source.index(sourceOffset),
            count * type.bytes());
  }

  @Override
  public boolean hasFinish() {
    return false;
  }

  @Override
  public void finish(HostMemory data, long offset, int count) {
    // Nothing to do: combined elements are the result.
  }
}
