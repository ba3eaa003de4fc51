package org.nccl4j.device.kernel;

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
public record MulticastMemory(boolean emulated, List<DeviceMemory> views) {}
