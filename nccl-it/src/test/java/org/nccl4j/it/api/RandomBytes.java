package org.nccl4j.it.api;

import java.util.Arrays;
import java.util.Random;
import java.util.SplittableRandom;

/**
 * Bytes that differ from seed to seed, as parts of one block of random bytes. To draw them anew for
 * each message takes longer than to send it.
 */
public final class RandomBytes {
  private static final int BEGINS = 1 << 20;

  /** Grows; what it has stays. */
  private static byte[] block = {};

  private RandomBytes() {}

  /** Returns so many bytes, the same for the same seed. */
  public static byte[] of(long seed, int bytes) {
    int from = new SplittableRandom(seed).nextInt(BEGINS);
    return Arrays.copyOfRange(block(bytes), from, from + bytes);
  }

  private static synchronized byte[] block(int bytes) {
    if (block.length < BEGINS + bytes) {
      byte[] larger = new byte[BEGINS + bytes];
      new Random(20260101).nextBytes(larger);
      block = larger;
    }
    return block;
  }
}
