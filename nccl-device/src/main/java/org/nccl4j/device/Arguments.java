package org.nccl4j.device;

/** Arguments that may not be null, or below 0. */
public final class Arguments {
  private Arguments() {}

  /**
   * Refuses null.
   *
   * @param what the argument as the caller knows it, e.g. "unique id"
   * @return the value
   * @throws InvalidArgumentException if it is null
   */
  public static <T> T notNull(T value, String what) {
    if (value == null) {
      throw new InvalidArgumentException(
          ErrorId.NULL, "null was passed for the " + what, "pass one");
    }
    return value;
  }

  /**
   * Refuses what is below 0.
   *
   * @return the count
   * @throws InvalidArgumentException if it is negative
   */
  public static long count(long value) {
    if (value < 0) {
      throw new InvalidArgumentException(
          ErrorId.COUNT, "the count is " + value, "pass 0 or more elements");
    }
    return value;
  }
}
