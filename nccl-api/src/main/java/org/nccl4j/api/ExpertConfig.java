package org.nccl4j.api;

import org.nccl4j.device.Arguments;
import org.nccl4j.device.DataType;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.kernel.ExpertSizes;

/**
 * Sizes of an exchange of tokens with experts ({@link Communicator#createExpertExchange}), the same
 * on all ranks.
 *
 * @param maxTokens the most tokens that a rank dispatches at once, at least 1
 * @param hidden elements of a token; its bytes are a multiple of 16, and with fp8 hidden is a
 *     multiple of 128
 * @param topK experts of a token, at least 1
 * @param experts the number of experts of all ranks, a multiple of the number of ranks; rank r has
 *     the experts from r x experts / nRanks on
 * @param type of the tokens and of the experts' outputs: floating point, of 2 or 4 bytes
 * @param fp8 true to send tokens as FLOAT8_E4M3 with a scale for every 128 elements
 * @param sumsByHost true to add a host's outputs for a token of another host there, times their
 *     weights, in float32 and in the order of k: one row, rounded to the type, crosses the network
 *     instead of one for each expert. The sum of a token then has the rounded sum of each other
 *     host in the place of that host's first expert. Without effect among ranks of one host
 */
public record ExpertConfig(
    int maxTokens,
    int hidden,
    int topK,
    int experts,
    DataType type,
    boolean fp8,
    boolean sumsByHost) {
  /** Elements that have one scale. */
  public static final int SCALED = ExpertSizes.SCALED;

  /** The most experts of a rank. */
  private static final int MOST_LOCAL = 512;

  /** The most rows that a rank may receive: the lists of a dispatch have fewer than 2 GiB. */
  private static final long MOST_ROWS = 1 << 26;

  /**
   * Checks the sizes.
   *
   * @throws InvalidArgumentException for a size that is not allowed
   */
  public ExpertConfig {
    Arguments.notNull(type, "type of the tokens");
    if (Math.min(Math.min(maxTokens, hidden), Math.min(topK, experts)) < 1) {
      throw new InvalidArgumentException(
          ErrorId.COUNT,
          "an exchange with experts has %d tokens of %d elements, %d experts of a token and %d experts"
              .formatted(maxTokens, hidden, topK, experts),
          "pass 1 or more of each");
    }
    if (!type.isFloatingPoint() || type.bytes() != Short.BYTES && type.bytes() != Float.BYTES) {
      throw new InvalidArgumentException(
          ErrorId.TYPE,
          "tokens for experts have the type " + type.label(),
          "use a floating-point type of 2 or 4 bytes");
    }
    int unit = fp8 ? SCALED : ExpertSizes.UNIT / type.bytes();
    if (hidden % unit != 0 || hidden > Integer.MAX_VALUE / type.bytes()) {
      throw new InvalidArgumentException(
          ErrorId.COUNT,
          "tokens for experts have %d elements of %s%s"
              .formatted(hidden, type.label(), fp8 ? " and are sent as fp8" : ""),
          "pass a multiple of %d, at most %d".formatted(unit, Integer.MAX_VALUE / type.bytes()));
    }
  }

  /** Sizes of an exchange whose results do not depend on the hosts: sumsByHost is false. */
  public ExpertConfig(
      int maxTokens, int hidden, int topK, int experts, DataType type, boolean fp8) {
    this(maxTokens, hidden, topK, experts, type, fp8, /* sumsByHost= */ false);
  }

  /** Throws unless some ranks can have these sizes. */
  void check(int nRanks) {
    if (experts % nRanks != 0 || experts / nRanks > MOST_LOCAL) {
      throw new InvalidArgumentException(
          ErrorId.COUNT,
          "%d experts on %d ranks".formatted(experts, nRanks),
          "pass a multiple of the number of ranks, at most %d for each".formatted(MOST_LOCAL));
    }
    if ((double) nRanks * maxTokens * topK > MOST_ROWS) {
      throw new InvalidArgumentException(
          ErrorId.COUNT,
          "%d tokens of each of %d ranks have %d experts each".formatted(maxTokens, nRanks, topK),
          "pass fewer tokens: a rank may receive at most %d rows".formatted(MOST_ROWS));
    }
  }

  /** The sizes as kernels know them. */
  ExpertSizes sizes(int nRanks) {
    return new ExpertSizes(nRanks, maxTokens, hidden, topK, experts, type, fp8);
  }
}
