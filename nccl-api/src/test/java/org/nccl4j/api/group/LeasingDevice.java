package org.nccl4j.api.group;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceEvent;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.Leases;

/** A device whose memory, without content, records the way in which it was freed. */
final class LeasingDevice extends Device {
  /** Bytes of each memory that was freed, after "late " if not by the thread that closed it. */
  final List<String> freed = new ArrayList<>();

  private final class Recorded extends Leases {
    private final long bytes;

    Recorded(long bytes) {
      this.bytes = bytes;
    }

    @Override
    protected void free() {
      freed.add(Long.toString(bytes));
    }

    @Override
    protected void freeLate() {
      freed.add("late " + bytes);
    }
  }

  private final class Memory extends DeviceMemory {
    Memory(long bytes) {
      super(bytes, new Recorded(bytes));
    }

    private Memory(Memory of, long bytes) {
      super(of, bytes);
    }

    @Override
    public Device device() {
      return LeasingDevice.this;
    }

    @Override
    public long address() {
      return 0;
    }

    @Override
    public DeviceMemory slice(long offset, long bytes) {
      return new Memory(this, bytes);
    }

    @Override
    public void write(long offset, ByteBuffer source) {
      throw new UnsupportedOperationException();
    }

    @Override
    public void read(long offset, ByteBuffer target) {
      throw new UnsupportedOperationException();
    }

    @Override
    public void fill(byte value) {
      throw new UnsupportedOperationException();
    }
  }

  @Override
  public Kind kind() {
    return Kind.CUDA;
  }

  @Override
  public int index() {
    return 0;
  }

  @Override
  public String name() {
    return "a device of a test";
  }

  @Override
  public DeviceMemory allocate(long bytes) {
    return new Memory(bytes);
  }

  @Override
  public DeviceMemory memAlloc(long bytes) {
    return new Memory(bytes);
  }

  @Override
  public DeviceMemory wrap(long address, long bytes) {
    throw new UnsupportedOperationException();
  }

  @Override
  public DeviceMemory wrap(ByteBuffer direct) {
    throw new UnsupportedOperationException();
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
