package org.nccl4j.api;

import org.nccl4j.api.window.RegisteredWindow;
import org.nccl4j.api.window.Team;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;

/**
 * Memory that all ranks of a communicator registered together ({@link
 * Communicator#registerWindow}). Any thread may call any method; one that was registered in a group
 * can be used from the group's end on.
 */
public final class Window {
  private final String communicator;

  /** Set once, when all ranks have registered it. */
  private volatile RegisteredWindow registered;

  private volatile Team team;

  Window(String communicator) {
    this.communicator = communicator;
  }

  void complete(RegisteredWindow window, Team of) {
    team = of;
    registered = window;
  }

  RegisteredWindow registered() {
    RegisteredWindow window = registered;
    if (window == null) {
      throw new InvalidUsageException(
          "a window of communicator %s is used before its group has ended".formatted(communicator),
          "end the group first");
    }
    return window;
  }

  /** Its number in the communicator, the same on all ranks. */
  public long number() {
    return registered().number();
  }

  /** This rank's memory, as it was registered. */
  public DeviceMemory memory() {
    return registered().memory();
  }

  /** Bytes, the same on all ranks. */
  public long size() {
    return registered().view().size();
  }

  /** Whether it can still be used. */
  public boolean isRegistered() {
    return !registered().isDropped();
  }

  /**
   * A rank's memory of the window, which this rank's device can load from and store to, until the
   * window is deregistered. When to do so is the callers' to agree.
   *
   * @throws InvalidArgumentException for a rank that is not on this machine
   */
  public DeviceMemory peer(int rank) {
    RegisteredWindow window = registered();
    if (!team.has(rank)) {
      throw new InvalidArgumentException(
          "rank %d's part of %s is not in reach of loads and stores".formatted(rank, this),
          "pass one of the ranks " + team.ranks());
    }
    if (window.isDropped()) {
      throw new InvalidUsageException(
          this + " is used after it was deregistered", "deregister a window after its last use");
    }
    return window.view().peers().get(rank - team.first());
  }

  @Override
  public String toString() {
    RegisteredWindow window = registered;
    return window == null
        ? "a window of communicator " + communicator
        : "window %d of communicator %s".formatted(window.number(), communicator);
  }
}
