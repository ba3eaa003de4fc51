package org.nccl4j.device.kernel;

import org.nccl4j.device.DeviceMemory;

/**
 * A rank's own share of the work of a quantised sum, on its own memory: between such steps, copies
 * bring the parts to the ranks.
 *
 * @param residual float32 for each element of all parts; null for none. {@link Step#QUANTISE} adds
 *     it to the elements and keeps the errors there; {@link Step#SUM_AND_QUANTISE} adds the errors
 *     of the sum of the rank's part
 * @param mostBlocks that its kernel may have on a GPU; 0 for no limit
 */
public record QuantisedWork(
    Step step, QuantisedParts parts, int rank, DeviceMemory residual, int mostBlocks) {
  /** A step. */
  public enum Step {
    /** Makes all parts (receive buffer) from elements (send buffer). */
    QUANTISE,
    /**
     * Adds the copies of the rank's part (send) in float32, in their order, to elements (receive).
     */
    SUM,
    /** Adds as SUM does, and quantises the sum to one part (receive). */
    SUM_AND_QUANTISE,
    /** Makes elements (receive) of all parts (send). */
    DEQUANTISE
  }

  /** Returns the bytes of the send buffer. */
  public long sendBytes() {
    return step == Step.QUANTISE ? elementBytes(parts.count()) : parts.nParts() * parts.bytes();
  }

  /** Returns the bytes of the receive buffer. */
  public long recvBytes() {
    return switch (step) {
      case QUANTISE -> parts.nParts() * parts.bytes();
      case SUM -> elementBytes(parts.elements(rank));
      case SUM_AND_QUANTISE -> parts.bytes();
      case DEQUANTISE -> elementBytes(parts.count());
    };
  }

  private long elementBytes(long elements) {
    return elements * parts.type().bytes();
  }
}
