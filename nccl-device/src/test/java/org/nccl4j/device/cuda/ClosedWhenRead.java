package org.nccl4j.device.cuda;

import java.nio.ByteBuffer;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.Leases;

/**
 * Memory that closes when a launch reads its address, as if by another thread between the check and
 * the driver's call.
 */
final class ClosedWhenRead extends DeviceMemory {
  private final DeviceMemory of;
  private final DeviceMemory closes;

  /** Stands for memory, and closes it. */
  ClosedWhenRead(DeviceMemory of) {
    super(of.size(), Leases.freeing(() -> {}));
    this.of = of;
    this.closes = of;
  }

  /** Stands for memory that stays open, and closes itself, which runs an action. */
  ClosedWhenRead(DeviceMemory of, Runnable release) {
    super(of.size(), Leases.freeing(release));
    this.of = of;
    this.closes = this;
  }

  @Override
  public Device device() {
    return of.device();
  }

  @Override
  public long address() {
    closes.close();
    return of.address();
  }

  @Override
  public DeviceMemory slice(long offset, long bytes) {
    throw new UnsupportedOperationException();
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
