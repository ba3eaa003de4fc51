package org.nccl4j.api.window;

/**
 * A rank's requirements for a device communicator.
 *
 * @param barriers of the team
 * @param slots of 8 bytes for each rank
 * @param signals that puts of kernels raise
 */
public record DeviceCommRequirements(int barriers, int slots, int signals) {
  private static final int BITS = 21;
  private static final long MASK = (1 << BITS) - 1;

  /** Returns the requirements packed into one number. */
  long packed() {
    return (barriers & MASK) << 2 * BITS | (slots & MASK) << BITS | signals & MASK;
  }

  /** Returns the requirements of a packed number. */
  static DeviceCommRequirements of(long packed) {
    return new DeviceCommRequirements(
        (int) (packed >> 2 * BITS & MASK), (int) (packed >> BITS & MASK), (int) (packed & MASK));
  }

  @Override
  public String toString() {
    return "%d barriers, %d slots and %d signals".formatted(barriers, slots, signals);
  }
}
