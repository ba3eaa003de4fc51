package org.nccl4j.device.cuda.rma;

import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.connection.Connection.PlacedSteps;

/**
 * The steps of a connection of puts whose data the proxy receives in windows of a GPU. {@link
 * RmaReceiver} tells of each step where its data go, in order. Owned by the thread that gives the
 * communicator's proxy its turns, and that is the receiver's too.
 */
public final class PlacedPuts implements PlacedSteps {
  /**
   * Most steps beyond the current one of which it is told: networks whose receives cannot be moved
   * have begun those of 8.
   */
  static final int AHEAD = 12;

  private static final int STEPS = 16;

  private final long[] told = new long[STEPS];
  private final DeviceMemory[] targets = new DeviceMemory[STEPS];
  private final long[] addresses = new long[STEPS];
  private final int[] sizes = new int[STEPS];

  /** By place: one more than the step whose data are in the window. */
  private final long[] placed = new long[STEPS];

  private long wanted = -1;

  private static int place(long step) {
    return (int) step & STEPS - 1;
  }

  /** Tells where the data of a step go. */
  void tell(long step, DeviceMemory window, long offset, int bytes) {
    int place = place(step);
    targets[place] = window;
    addresses[place] = window.address() + offset;
    sizes[place] = bytes;
    told[place] = step + 1;
    wanted = step;
  }

  /** True if the data of a step that has come are in the window; then it is forgotten. */
  boolean take(long step) {
    targets[place(step)] = null;
    return placed[place(step)] == step + 1;
  }

  @Override
  @HotPath
  public long wanted() {
    return wanted;
  }

  @Override
  @HotPath
  public boolean isWanted(long step) {
    return told[place(step)] == step + 1 && targets[place(step)] != null;
  }

  @Override
  public boolean areAwaited() {
    return true;
  }

  @Override
  @HotPath
  public DeviceMemory memory(long step) {
    return targets[place(step)];
  }

  @Override
  @HotPath
  public long address(long step) {
    return addresses[place(step)];
  }

  @Override
  @HotPath
  public int bytes(long step) {
    return sizes[place(step)];
  }

  @Override
  @HotPath
  public void placed(long step) {
    placed[place(step)] = step + 1;
  }
}
