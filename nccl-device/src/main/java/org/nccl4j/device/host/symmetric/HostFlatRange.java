package org.nccl4j.device.host.symmetric;

import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.shm.OwnedFd;
import org.nccl4j.device.shm.ReservedRange;
import org.nccl4j.device.symmetric.FlatRange;
import org.nccl4j.device.symmetric.ShareableMemory;

/** A flat range of this process's addresses. */
public final class HostFlatRange implements FlatRange {
  private final Device device;
  private final long stride;
  private final ReservedRange range;

  /** Reserves the addresses. */
  public HostFlatRange(Device device, int team, long stride) {
    this.device = device;
    this.stride = stride;
    this.range = ReservedRange.of(Math.multiplyExact(team, stride));
  }

  @Override
  public long address() {
    return range.address();
  }

  @Override
  public long stride() {
    return stride;
  }

  @Override
  public DeviceMemory map(int place, long offset, ShareableMemory allocation) {
    try (OwnedFd descriptor = new OwnedFd(allocation.exportFileDescriptor())) {
      return map(place, offset, descriptor.value(), allocation.size());
    }
  }

  @Override
  public DeviceMemory map(int place, long offset, int descriptor, long bytes) {
    long at = place * stride + offset;
    range.map(at, descriptor, bytes);
    return new HostMemory(device, range.address() + at, bytes, () -> {});
  }

  @Override
  public void unmap(int place, long offset, long bytes) {
    range.unmap(place * stride + offset);
  }

  @Override
  public void close() {
    range.close();
  }
}
