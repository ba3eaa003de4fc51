package org.nccl4j.device.host.reduce;

import org.nccl4j.device.host.memory.HostMemory;

/**
 * A reduction of elements that have been prepared before, or are combinations already: the same but
 * for that. It shares the other's scratch arrays.
 *
 * @param of the whole reduction
 */
public record PreparedReduction(Reduction of) implements Reduction {
  @Override
  public void reduce(
      HostMemory a,
      long aOffset,
      HostMemory b,
      long bOffset,
      HostMemory target,
      long targetOffset,
      int count) {
    of.reduce(a, aOffset, b, bOffset, target, targetOffset, count);
  }

  @Override
  public boolean widens() {
    return of.widens();
  }

  @Override
  public void reduceAll(Operands operands, HostMemory target, long targetOffset, int count) {
    of.reduceAll(operands, target, targetOffset, count);
  }

  @Override
  public boolean hasPrepare() {
    return false;
  }

  @Override
  public void prepare(
      HostMemory source, long sourceOffset, HostMemory target, long targetOffset, int count) {
    throw new UnsupportedOperationException("elements are prepared already");
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
