package org.nccl4j.device.host.reduce;

import org.nccl4j.device.DataType;
import org.nccl4j.device.ReductionOperator;
import org.nccl4j.device.host.memory.HostMemory;

/** A reduction by the user's function. */
final class UserReduction implements Reduction {
  private final DataType type;
  private final UserFunction function;

  UserReduction(DataType type, ReductionOperator operator) {
    this.type = type;
    this.function = new UserFunction(operator, type, type.bytes());
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
    function.combine(a, aOffset, b, bOffset, target, targetOffset, count);
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
