package org.nccl4j.device;

/** Checks of arguments that must not be null or negative. */
public final class Arguments {
  private Arguments() {}

  /**
   * Throws for null.
   *
   * @param what name of the argument, such as "unique id"
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
   * Throws for a negative count.
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
