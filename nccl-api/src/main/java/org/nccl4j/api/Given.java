package org.nccl4j.api;

import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;

/** Arguments that may not be null, or below 0. */
final class Given {
  private Given() {}

  /**
   * @param what the argument as the caller knows it, e.g. "unique id"
   * @return the value
   * @throws InvalidArgumentException if it is null
   */
  static <T> T notNull(T value, String what) {
    if (value == null) {
      throw new InvalidArgumentException(
          ErrorId.NULL, "null was passed for the " + what, "pass one");
    }
    return value;
  }

  /**
   * @return the count
   * @throws InvalidArgumentException if it is negative
   */
  static long count(long value) {
    if (value < 0) {
      throw new InvalidArgumentException(
          ErrorId.COUNT, "the count is " + value, "pass 0 or more elements");
    }
    return value;
  }
}
