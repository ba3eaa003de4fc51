package org.nccl4j.device.host.reduce;

import org.nccl4j.device.host.memory.HostMemory;

/**
 * Element-wise arithmetic of one operator on one type. Offsets are in bytes, of any alignment.
 * Counts are at most {@link HostMemory#MAX_ACCESS} bytes worth of elements. Not safe for several
 * threads at once: an instance has scratch arrays of its own.
 */
public interface Reduction {
  /** target = a op b. The target may be a or b at the same offset; other overlaps may not be. */
  void reduce(
      HostMemory a,
      long aOffset,
      HostMemory b,
      long bOffset,
      HostMemory target,
      long targetOffset,
      int count);

  /**
   * True if several operands are combined in wider numbers and rounded once: {@link #reduceAll}.
   */
  default boolean widens() {
    return false;
  }

  /**
   * target = all operands, combined in their order, rounded once. The target may be one of them at
   * the same offset; other overlaps may not be. Only if {@link #widens()}.
   */
  default void reduceAll(Operands operands, HostMemory target, long targetOffset, int count) {
    throw new UnsupportedOperationException("operands are combined two at a time");
  }

  /** True if each rank's own elements are changed before they are combined. */
  boolean hasPrepare();

  /** target = source as it enters the combination; a copy unless {@link #hasPrepare()}. */
  void prepare(
      HostMemory source, long sourceOffset, HostMemory target, long targetOffset, int count);

  /** True if combined elements are changed at the end. */
  boolean hasFinish();

  /** Changes combined elements into the result; nothing unless {@link #hasFinish()}. */
  void finish(HostMemory data, long offset, int count);
}
