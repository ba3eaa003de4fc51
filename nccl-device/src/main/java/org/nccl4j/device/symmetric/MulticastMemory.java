package org.nccl4j.device.symmetric;

import java.util.List;
import org.nccl4j.device.DeviceMemory;

/**
 * All members' memories as one: a load combines the same place of all of them, a store goes to all.
 *
 * @param emulated whether it is done access by access over the members' own addresses, and not by
 *     the switch
 * @param views emulated: each member's memory by this member's addresses, in the members' order; by
 *     the switch: one range of multicast addresses
 */
public record MulticastMemory(boolean emulated, List<DeviceMemory> views) {
  /** A part of it, the same of all members. */
  public MulticastMemory slice(long offset, long bytes) {
    return new MulticastMemory(
        emulated, views.stream().map(view -> view.slice(offset, bytes)).toList());
  }

  /** Bytes of each member's memory that can be reached. */
  public long size() {
    return views.get(0).size();
  }
}
