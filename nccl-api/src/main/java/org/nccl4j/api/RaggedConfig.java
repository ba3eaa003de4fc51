package org.nccl4j.api;

import org.nccl4j.device.Arguments;
import org.nccl4j.device.DataType;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.kernel.RaggedKernels;

/**
 * Sizes of a ragged exchange ({@link Communicator#createRaggedExchange(RaggedConfig)}), the same on
 * all ranks.
 *
 * @param elementBytes bytes of an element, 1 to 2<sup>30</sup>: of a number, or of a row that
 *     travels as a whole
 * @param maxCount the most elements that a rank sends to one rank in a call, at least 1
 * @param maxReceived the most elements that a rank receives from all ranks in a call, at least 1;
 *     nRanks x maxCount is always enough
 * @param countType of counts and offsets in device memory: INT32 or INT64
 */
public record RaggedConfig(int elementBytes, long maxCount, long maxReceived, DataType countType) {
  private static final int MOST_ELEMENT_BYTES = 1 << 30;

  /** The most bytes to a rank, and from all ranks: sums of them do not overflow. */
  private static final long MOST_BYTES = 1L << 50;

  /**
   * Checks the sizes.
   *
   * @throws InvalidArgumentException for a size that is not allowed
   */
  public RaggedConfig {
    Arguments.notNull(countType, "type of the counts");
    if (countType != DataType.INT32 && countType != DataType.INT64) {
      throw new InvalidArgumentException(
          ErrorId.TYPE,
          "counts of a ragged exchange have the type " + countType.label(),
          "use INT32 or INT64");
    }
    if (elementBytes < 1 || elementBytes > MOST_ELEMENT_BYTES) {
      throw new InvalidArgumentException(
          ErrorId.COUNT,
          "elements of a ragged exchange have %d bytes".formatted(elementBytes),
          "pass 1 to %d".formatted(MOST_ELEMENT_BYTES));
    }
    long most = MOST_BYTES / elementBytes;
    most = countType == DataType.INT32 ? Math.min(most, Integer.MAX_VALUE) : most;
    if (Math.min(maxCount, maxReceived) < 1 || Math.max(maxCount, maxReceived) > most) {
      throw new InvalidArgumentException(
          ErrorId.COUNT,
          "a ragged exchange has at most %d elements of %d bytes for a rank and %d from all ranks, with counts of %s"
              .formatted(maxCount, elementBytes, maxReceived, countType.label()),
          "pass 1 to %d of both".formatted(most));
    }
  }

  /** The sizes as kernels know them. */
  RaggedKernels.Sizes sizes(int nRanks) {
    return new RaggedKernels.Sizes(
        nRanks, elementBytes, maxCount, maxReceived, countType == DataType.INT64);
  }
}
