package org.nccl4j.device.host.reduce;

import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.memory.HostMemory;

/**
 * A mean for kernels that combine the operands of all ranks at once: ranks send their elements as
 * they are, and all are divided where they are combined, in float32.
 *
 * @param of the mean of a type that widens
 */
record MeanOfAll(Reduction of) implements Reduction {
  @Override
  public void reduce(
      HostMemory a,
      long aOffset,
      HostMemory b,
      long bOffset,
      HostMemory target,
      long targetOffset,
      int count) {
    throw new UnsupportedOperationException("operands of a mean of all are combined at once");
  }

  @Override
  public boolean widens() {
    return true;
  }

  @Override
  @HotPath
  public void reduceAll(Operands operands, HostMemory target, long targetOffset, int count) {
    operands.prepareAll();
    of.reduceAll(operands, target, targetOffset, count);
  }

  @Override
  public boolean hasPrepare() {
    return false;
  }

  @Override
  public void prepare(
      HostMemory source, long sourceOffset, HostMemory target, long targetOffset, int count) {
    throw new UnsupportedOperationException("elements are prepared where they are combined");
  }

  @Override
  public boolean hasFinish() {
    return of.hasFinish();
  }

  @Override
  public void finish(HostMemory data, long offset, int count) {
    of.finish(data, offset, count);
  }
}
