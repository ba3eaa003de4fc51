package org.nccl4j.device;

/** The devices of this machine. */
public final class Devices {
  private Devices() {}

  /** The processor and its memory. Always there. */
  public static Device host() {
    throw new UnsupportedOperationException();
  }
}
