package org.nccl4j.device.symmetric;

/**
 * The layout of the library's own window, the same on all ranks and devices:
 *
 * @param team how many ranks
 */
public record ResourceLayout(int team) {
  /** Bytes from one rank's word to the next's, so that none share a cache line. */
  public static final long WORD_STRIDE = 128;

  /** Offset of the signal word that a rank writes. */
  public long signal(int place) {
    return place * WORD_STRIDE;
  }

  /** Offset of the arrival words that a rank writes. */
  public long arrival(int place) {
    return (team + place) * WORD_STRIDE;
  }

  /** Returns the offset of the device's own part, a multiple of 4096. */
  public long rest() {
    return (2 * team * WORD_STRIDE + 4095) / 4096 * 4096;
  }
}
