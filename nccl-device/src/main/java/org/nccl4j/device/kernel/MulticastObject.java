package org.nccl4j.device.kernel;

import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
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
   * @param fabric whether members are on several hosts of one NVLink domain, and give each other
   *     fabric handles instead of descriptors
   */
  record Group(int member, int members, long bytes, boolean fabric) {
    /** Members on one host. */
    public Group(int member, int members, long bytes) {
      this(member, members, bytes, /* fabric= */ false);
    }
  }

  /** Makes what this member gives to others. */
  void create();

  /**
   * The file descriptor by which others get what this member gives; it stays this object's. -1 if
   * it gives nothing.
   */
  int descriptor();

  /**
   * The fabric handle by which others get what this member gives, also on other hosts; empty if it
   * gives nothing.
   */
  default byte[] fabricHandle() {
    return new byte[0];
  }

  /** True if another member's descriptor or handle is needed here. */
  boolean wants(int member);

  /** Takes another member's descriptor, and closes it. */
  void accept(int member, int descriptor);

  /** Takes another member's fabric handle. */
  default void accept(int member, byte[] fabricHandle) {
    throw new InvalidUsageException(
        ErrorId.UNSUPPORTED,
        "the emulation of multicast objects is not shared between hosts",
        "use the switch (NCCL4J_NVLS_MODE=hardware)");
  }

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
