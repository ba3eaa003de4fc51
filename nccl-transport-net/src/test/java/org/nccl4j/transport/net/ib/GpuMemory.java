package org.nccl4j.transport.net.ib;

import java.nio.ByteBuffer;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceEvent;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.Leases;

/** Host memory that says it is a GPU's, for tests of what is done for GPUs alone. */
public final class GpuMemory extends DeviceMemory {
  private final DeviceMemory host;

  /** Some memory of the host. */
  public GpuMemory(DeviceMemory host) {
    super(host.size(), Leases.freeing(host::close));
    this.host = host;
  }

  @Override
  public Device device() {
    return new Gpu();
  }

  @Override
  public long address() {
    return host.address();
  }

  @Override
  public DeviceMemory slice(long offset, long bytes) {
    return new GpuMemory(host.slice(offset, bytes));
  }

  @Override
  public void write(long offset, ByteBuffer source) {
    host.write(offset, source);
  }

  @Override
  public void read(long offset, ByteBuffer target) {
    host.read(offset, target);
  }

  @Override
  public void fill(byte value) {
    host.fill(value);
  }

  private static final class Gpu extends Device {
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
      return "no GPU";
    }

    @Override
    public DeviceMemory allocate(long bytes) {
      throw new UnsupportedOperationException();
    }

    @Override
    public DeviceMemory memAlloc(long bytes) {
      throw new UnsupportedOperationException();
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
    public DeviceEvent createEvent() {
      throw new UnsupportedOperationException();
    }

    @Override
    public DeviceStream createStream() {
      throw new UnsupportedOperationException();
    }
  }
}
