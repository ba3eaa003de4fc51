package org.nccl4j.device.host.reduce;

import org.nccl4j.device.host.memory.HostMemory;

/**
 * The combination alone, of elements that have been prepared before and are finished later. It
 * shares the other's scratch arrays.
 *
 * @param of the whole reduction
 */
public record PartialReduction(Reduction of) implements Reduction {
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
    return false;
  }

  @Override
  public void finish(HostMemory data, long offset, int count) {
    throw new UnsupportedOperationException("elements are finished later");
  }
}
