package org.nccl4j.device.kernel;

import org.nccl4j.device.DataType;

/**
 * Sizes of an exchange of tokens with experts, the same on all ranks.
 *
 * @param nRanks of the communicator
 * @param maxTokens the most tokens that a rank dispatches at once
 * @param hidden elements of a token; its bytes are a multiple of 16, also on its way
 * @param topK experts of a token
 * @param experts of all ranks, a multiple of nRanks
 * @param type of the tokens and of the experts' outputs
 * @param fp8 whether tokens travel as FLOAT8_E4M3 with a scale for every {@link #SCALED} elements
 */
public record ExpertSizes(
    int nRanks, int maxTokens, int hidden, int topK, int experts, DataType type, boolean fp8) {
  /** Elements that have one scale. */
  public static final int SCALED = 128;

  /** Kernels move as many bytes at once: rows begin at multiples of it. */
  public static final int UNIT = 16;

  /** Experts of a rank. */
  public int localExperts() {
    return experts / nRanks;
  }

  /** Entries of the most tokens of a rank: a token has one for each of its experts. */
  public long entries() {
    return (long) maxTokens * topK;
  }

  /** The most rows that a rank receives. */
  public long rows() {
    return nRanks * entries();
  }

  /** Bytes of a token in its own type. */
  public long rowBytes() {
    return (long) hidden * type.bytes();
  }

  /** Bytes of a token on its way, without scales. */
  public long wireBytes() {
    return (long) hidden * wireType().bytes();
  }

  /** The type of a token on its way. */
  public DataType wireType() {
    return fp8 ? DataType.FLOAT8_E4M3 : type;
  }

  /** Scales of a token. */
  public int scales() {
    return fp8 ? hidden / SCALED : 0;
  }

  /** Bytes of a token's scales. */
  public long scaleBytes() {
    return (long) scales() * Float.BYTES;
  }

  /** Bytes of a token as sends and receives carry it: its scales lie behind its elements. */
  public long travelBytes() {
    return wireBytes() + (scaleBytes() + UNIT - 1) / UNIT * UNIT;
  }
}
