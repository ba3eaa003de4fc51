package org.nccl4j.device.host.reduce;

import org.nccl4j.device.HotPath;

/**
 * The greatest and the least of 16-bit floating-point numbers in words of two, by integers alone: a
 * half moved to the upper end of an int, with the magnitude of negative numbers inverted, is in the
 * order of the numbers. A NaN is given the sign with which it loses to every number.
 */
final class ShortOrder {
  private ShortOrder() {}

  /** a = the greater of a and b, for both halves of each word. */
  @HotPath
  static void greatest(int[] a, int[] b, int infinity, int words) {
    int limit = infinity << 16;
    for (int i = 0; i < words; i++) {
      int low = Math.max(low(a[i] << 16, limit), low(b[i] << 16, limit));
      int high = Math.max(low(a[i] & 0xffff0000, limit), low(b[i] & 0xffff0000, limit));
      a[i] = flip(low) >>> 16 | (flip(high) & 0xffff0000);
    }
  }

  /** a = the lesser of a and b, for both halves of each word. */
  @HotPath
  static void least(int[] a, int[] b, int infinity, int words) {
    int limit = infinity << 16;
    for (int i = 0; i < words; i++) {
      int low = Math.min(high(a[i] << 16, limit), high(b[i] << 16, limit));
      int high = Math.min(high(a[i] & 0xffff0000, limit), high(b[i] & 0xffff0000, limit));
      a[i] = flip(low) >>> 16 | (flip(high) & 0xffff0000);
    }
  }

  /** a = the greater of a and b. */
  @HotPath
  static void greatest(short[] a, short[] b, int infinity, int count) {
    int limit = infinity << 16;
    for (int i = 0; i < count; i++) {
      int greatest = Math.max(low(a[i] << 16, limit), low(b[i] << 16, limit));
      a[i] = (short) (flip(greatest) >>> 16);
    }
  }

  /** a = the lesser of a and b. */
  @HotPath
  static void least(short[] a, short[] b, int infinity, int count) {
    int limit = infinity << 16;
    for (int i = 0; i < count; i++) {
      int least = Math.min(high(a[i] << 16, limit), high(b[i] << 16, limit));
      a[i] = (short) (flip(least) >>> 16);
    }
  }

  /** In order, NaN below all. */
  @HotPath
  private static int low(int bits, int limit) {
    int nan = (limit - (bits & 0x7fffffff)) >> 31;
    return flip(bits | (nan & 0x80000000));
  }

  /** In order, NaN above all. */
  @HotPath
  private static int high(int bits, int limit) {
    int nan = (limit - (bits & 0x7fffffff)) >> 31;
    return flip(bits & ~(nan & 0x80000000));
  }

  /** Its own inverse. */
  @HotPath
  private static int flip(int bits) {
    return bits ^ (bits >> 31 & 0x7fffffff);
  }
}
