package org.nccl4j.api.window;

/**
 * A rank's requirements for a device communicator.
 *
 * @param barriers of the team
 * @param slots of 8 bytes for each rank
 */
public record DeviceCommRequirements(int barriers, int slots) {
  /** Returns the requirements packed into one number. */
  long packed() {
    return (long) barriers << Integer.SIZE | Integer.toUnsignedLong(slots);
  }

  /** Returns the requirements of a packed number. */
  static DeviceCommRequirements of(long packed) {
    return new DeviceCommRequirements((int) (packed >> Integer.SIZE), (int) packed);
  }

  @Override
  public String toString() {
    return "%d barriers and %d slots".formatted(barriers, slots);
  }
}
