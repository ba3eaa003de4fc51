package org.nccl4j.device.host;

import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.IntFunction;
import java.util.function.IntSupplier;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.Leases;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.shm.OwnedFd;

/**
 * Memory that its user has registered with a communicator, of the host or of a GPU: networks may
 * know it until the end of the registration, or until the memory is closed. Any thread.
 */
public final class RegisteredMemory implements AutoCloseable {
  private static final List<RegisteredMemory> ALL = new CopyOnWriteArrayList<>();

  /** Beginnings, ends and refusals of registrations. */
  private static final AtomicLong CHANGES = new AtomicLong();

  private final DeviceMemory memory;
  private volatile boolean ended;
  private volatile boolean refused;

  /** Null before it is needed. */
  private OwnedFd descriptor;

  private RegisteredMemory(DeviceMemory memory) {
    this.memory = memory;
  }

  /** Begins a registration. */
  public static RegisteredMemory of(DeviceMemory memory) {
    RegisteredMemory made = new RegisteredMemory(memory);
    ALL.add(made);
    CHANGES.incrementAndGet();
    if (memory instanceof HostMemory host) {
      host.countRegistrations(1);
    }
    return made;
  }

  /**
   * The registration that holds some bytes of a buffer; null if none does.
   *
   * @param buffer the registered memory, or memory that it is a slice of, or a slice of the same;
   *     of a GPU any memory at these addresses
   * @param address of the first byte
   */
  public static RegisteredMemory find(DeviceMemory buffer, long address, long bytes) {
    for (RegisteredMemory each : ALL) {
      if (each.holds(buffer, address, bytes)) {
        return each;
      }
    }
    return null;
  }

  /**
   * True if networks may use some bytes of a device's memory, and none has refused it.
   *
   * @param address of the first byte
   */
  public static boolean serves(Device device, long address, long bytes) {
    for (RegisteredMemory each : ALL) {
      if (each.memory.device() == device && !each.refused && each.contains(address, bytes)) {
        return true;
      }
    }
    return false;
  }

  /** A number that changes with what {@link #serves} answers. */
  @HotPath
  public static long changes() {
    return CHANGES.get();
  }

  /** A network does not take the memory. */
  public void refuse() {
    refused = true;
    CHANGES.incrementAndGet();
  }

  /** True if it holds some bytes of a buffer and has not ended. */
  @HotPath
  public boolean holds(DeviceMemory buffer, long address, long bytes) {
    return isPartOf(buffer) && contains(address, bytes);
  }

  private boolean contains(long address, long bytes) {
    return !ended
        && address >= memory.address()
        && address + bytes <= memory.address() + memory.size()
        && memory.isOpen();
  }

  /** A GPU's memory may be wrapped for each call, so the addresses decide. */
  private boolean isPartOf(DeviceMemory buffer) {
    return Leases.of(buffer) == Leases.of(memory)
        || !(memory instanceof HostMemory) && buffer.device() == memory.device();
  }

  /** True if it has not ended. */
  public boolean isOpen() {
    return !ended && memory.isOpen();
  }

  /**
   * Uses a descriptor by which devices are told of the memory: exported at the first call, closed
   * with the registration.
   *
   * @param use returns before the descriptor is closed
   * @throws InvalidUsageException if the registration has ended
   */
  public synchronized <T> T withDescriptor(IntSupplier export, IntFunction<T> use) {
    if (ended) {
      throw new InvalidUsageException(
          ErrorId.CLOSED,
          "%s is used over a network after it was deregistered".formatted(memory),
          "deregister memory after the last operation with it has ended");
    }
    if (descriptor == null) {
      descriptor = new OwnedFd(export.getAsInt());
    }
    return use.apply(descriptor.value());
  }

  /** The memory. */
  public DeviceMemory memory() {
    return memory;
  }

  /** Ends the registration; again: nothing. */
  @Override
  public synchronized void close() {
    if (!ended) {
      ended = true;
      ALL.remove(this);
      CHANGES.incrementAndGet();
      if (descriptor != null) {
        descriptor.close();
      }
      if (memory instanceof HostMemory host) {
        host.countRegistrations(-1);
      }
    }
  }
}
