package org.nccl4j.device.host.reduce;

import org.nccl4j.device.HotPath;

/**
 * The greater and the lesser of 16-bit floating-point numbers, by integers alone: with the
 * magnitude of negative numbers inverted, their bits are in their order. A NaN is given the sign
 * with which it loses to every number. No branch, and no {@code Math.max}, which C2 of JDK 17 does
 * not vectorise.
 */
final class ShortOrder {
  private ShortOrder() {}

  /** a = the greater of a and b, for both halves of each word. */
  @HotPath
  static void greatest(int[] a, int[] b, int infinity, int words) {
    for (int i = 0; i < words; i++) {
      int low = greater(a[i] << 16 >> 16, b[i] << 16 >> 16, infinity);
      int high = greater(a[i] >> 16, b[i] >> 16, infinity);
      a[i] = (low & 0xffff) | high << 16;
    }
  }

  /** a = the lesser of a and b, for both halves of each word. */
  @HotPath
  static void least(int[] a, int[] b, int infinity, int words) {
    for (int i = 0; i < words; i++) {
      int low = lesser(a[i] << 16 >> 16, b[i] << 16 >> 16, infinity);
      int high = lesser(a[i] >> 16, b[i] >> 16, infinity);
      a[i] = (low & 0xffff) | high << 16;
    }
  }

  /** The greater of two, as shorts. */
  @HotPath
  static int greater(int a, int b, int infinity) {
    int x = flip(a | (nan(a, infinity) & ~0x7fff));
    int difference = x - flip(b | (nan(b, infinity) & ~0x7fff));
    return flip(x - (difference & difference >> 31));
  }

  /** The lesser of two, as shorts. */
  @HotPath
  static int lesser(int a, int b, int infinity) {
    int x = flip(a & ~(nan(a, infinity) & ~0x7fff));
    int difference = flip(b & ~(nan(b, infinity) & ~0x7fff)) - x;
    return flip(x + (difference & difference >> 31));
  }

  /** All ones for a NaN, else none. */
  @HotPath
  private static int nan(int bits, int infinity) {
    return (infinity - (bits & 0x7fff)) >> 31;
  }

  /** An integer in the order of the number; its own inverse. */
  @HotPath
  private static int flip(int bits) {
    return bits ^ (bits >> 31 & 0x7fff);
  }
}
