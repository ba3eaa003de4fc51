package org.nccl4j.device.kernel;

import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.symmetric.MulticastMemory;

/**
 * One member's side of a multicast object: memory of every member, of which a place can be read
 * combined and written everywhere at once.
 *
 * <p>It comes to be in steps, in this order: {@link #create}, {@link #accept} of what is wanted,
 * {@link #addDevice}, {@link #bind}, {@link #map}. All members take a step before any takes the
 * next; its owner sees to it. After a step that failed, or at any other time, {@link #close} undoes
 * what was done, in the reverse order. One thread at a time.
 */
public interface MulticastObject extends AutoCloseable {
  /** The implementation of an access to all members. */
  enum Form {
    /** The switch, through multicast objects of the driver. */
    DRIVER,
    /** The device, member by member; the same algorithms, and as many more accesses. */
    EMULATED
  }

  /**
   * Facts that all members agree on.
   *
   * @param member this one, from 0
   * @param members how many there are, each on a device of its own
   * @param bytes of each member's memory
   */
  record Group(int member, int members, long bytes) {}

  /** Makes what this member gives to others. */
  void create();

  /**
   * The file descriptor by which others get what this member gives; it stays this object's. -1 if
   * it gives nothing.
   */
  int descriptor();

  /** True if another member's descriptor is needed here. */
  boolean wants(int member);

  /** Takes another member's descriptor, and closes it. */
  void accept(int member, int descriptor);

  /** Adds this member's device. */
  void addDevice();

  /** Binds this member's memory: the given one, or else new memory, zeroed. */
  void bind();

  /** Makes the memory usable by kernels of this member's device. */
  void map();

  /** This member's own memory, once mapped. */
  DeviceMemory unicast();

  /** All members' memories, once mapped. */
  MulticastMemory multicast();

  /** Undoes all steps that were taken, in the reverse order. Calling it again does nothing. */
  @Override
  void close();
}
