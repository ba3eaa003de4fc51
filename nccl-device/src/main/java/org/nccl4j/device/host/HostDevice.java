package org.nccl4j.device.host;

import com.kenai.jffi.MemoryIO;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceEvent;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.host.memory.HostMemory;

/** This machine's processor and memory. One instance. */
public final class HostDevice extends Device {
  private static final HostDevice INSTANCE = new HostDevice();

  private HostDevice() {}

  /** The one instance. */
  public static HostDevice instance() {
    return INSTANCE;
  }

  @Override
  public Kind kind() {
    return Kind.HOST;
  }

  @Override
  public int index() {
    return 0;
  }

  @Override
  public String name() {
    return "host";
  }

  @Override
  public DeviceMemory allocate(long bytes) {
    if (bytes < 0) {
      throw new InvalidArgumentException(
          "an allocation of " + bytes + " bytes", "ask for 0 or more");
    }
    if (bytes == 0) {
      return new HostMemory(this, 0, 0, () -> {});
    }
    MemoryIO io = MemoryIO.getInstance();
    long address = io.allocateMemory(bytes, true);
    if (address == 0) {
      throw new SystemErrorException("no memory for " + bytes + " bytes", "allocate less");
    }
    return new HostMemory(this, address, bytes, () -> io.freeMemory(address));
  }

  @Override
  public DeviceMemory wrap(long address, long bytes) {
    if (bytes < 0 || (address == 0 && bytes > 0)) {
      throw new InvalidArgumentException(
          "%d bytes at address 0x%x cannot be wrapped".formatted(bytes, address),
          "pass the address of memory and how much of it may be used");
    }
    return new HostMemory(this, address, bytes, () -> {});
  }

  @Override
  public DeviceStream createStream() {
    throw new UnsupportedOperationException();
  }

  @Override
  public DeviceEvent createEvent() {
    throw new UnsupportedOperationException();
  }
}
