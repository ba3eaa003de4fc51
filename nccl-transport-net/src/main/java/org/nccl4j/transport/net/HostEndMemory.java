package org.nccl4j.transport.net;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.nccl4j.api.spi.NetConnection;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.cuda.PinnedRegion;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.kernel.Connection;
import org.nccl4j.device.kernel.ConnectionLayout;
import org.nccl4j.device.shm.MappedRegion;

/**
 * Both regions of one end of a connection, in memory of the host. A GPU's kernels reach it as
 * pinned memory: pinned, and so taken from the machine, is only what the carried channels use of
 * it, the words and the first part of each Simple slot.
 */
final class HostEndMemory implements EndMemory {
  private static final long PAGE = 4096;

  private final ConnectionLayout layout;
  private final int channels;
  private final DeviceMemory host;
  private final List<PinnedRegion> pinned = new ArrayList<>();
  private final MappedRegion region;
  private final Connection connection;

  /** Kernels of the host device, which use channel 0 alone and all of a slot. */
  HostEndMemory(Device device, ConnectionLayout layout) {
    this.layout = layout;
    channels = 1;
    region = null;
    host = device.allocate(layout.dataBytes() + ConnectionLayout.CREDIT_BYTES);
    connection = new Connection(data(host), credit(host));
  }

  /**
   * A GPU.
   *
   * @param channels that are carried
   * @throws org.nccl4j.device.CudaException if the driver pins no more memory
   */
  HostEndMemory(CudaDevice device, ConnectionLayout layout, int channels) {
    this.layout = layout;
    this.channels = channels;
    long bytes = layout.dataBytes() + ConnectionLayout.CREDIT_BYTES;
    region = MappedRegion.anonymous(bytes);
    host = HostDevice.instance().wrap(region.address(), bytes);
    boolean complete = false;
    try {
      DeviceMemory seen = device.wrap(pin(device), bytes);
      connection = new Connection(data(seen), credit(seen), channels);
      complete = true;
    } finally {
      if (!complete) {
        close();
      }
    }
  }

  /** Where the device sees the memory, of which it may touch what is used. */
  private long pin(CudaDevice device) {
    pin(device, 0, layout.ll(0));
    pin(device, layout.dataBytes(), ConnectionLayout.CREDIT_BYTES);
    for (int slot = 0; slot < ConnectionLayout.STEPS; slot++) {
      pin(device, layout.simple(slot), used());
    }
    // A device sees pinned memory where the process does, or elsewhere, each region on its own.
    long shift = pinned.get(0).address() - pinned.get(0).hostAddress();
    boolean together =
        pinned.stream().allMatch(each -> each.address() - each.hostAddress() == shift);
    if (!together) {
      pinned.forEach(PinnedRegion::close);
      pinned.clear();
      pin(device, 0, region.bytes());
    }
    return pinned.get(0).address();
  }

  private void pin(CudaDevice device, long offset, long bytes) {
    long begin = offset / PAGE * PAGE;
    long end = Math.min(region.bytes(), (offset + bytes + PAGE - 1) / PAGE * PAGE);
    pinned.add(PinnedRegion.of(device, region.address() + begin, end - begin));
  }

  private DeviceMemory data(DeviceMemory all) {
    return all.slice(0, layout.dataBytes());
  }

  private DeviceMemory credit(DeviceMemory all) {
    return all.slice(layout.dataBytes(), ConnectionLayout.CREDIT_BYTES);
  }

  /** Bytes that are used of a Simple slot. */
  private long used() {
    return (long) channels * part();
  }

  /** Bytes that a channel has of a Simple slot. */
  private int part() {
    boolean whole = region == null;
    return layout.simpleSlotBytes() / (whole ? 1 : ConnectionLayout.CHANNELS);
  }

  @Override
  public Connection connection() {
    return connection;
  }

  /** {@inheritDoc} Of a GPU's what is used of each slot: registering takes memory too. */
  @Override
  public Channel channel(int number, NetConnection network) {
    NetMemory[] memories = new NetMemory[ConnectionLayout.STEPS];
    long[] offsets = new long[ConnectionLayout.STEPS];
    boolean complete = false;
    try {
      NetMemory whole = region == null ? network.register(data(host)) : null;
      for (int slot = 0; slot < ConnectionLayout.STEPS; slot++) {
        long begin = layout.simple(slot);
        memories[slot] = whole == null ? network.register(host.slice(begin, used())) : whole;
        offsets[slot] = whole == null ? (long) number * part() : begin;
      }
      complete = true;
    } finally {
      if (!complete) {
        Channel.close(memories);
      }
    }
    return new Channel(number, view(data(host)), view(credit(host)), memories, offsets, part());
  }

  private static ByteBuffer view(DeviceMemory memory) {
    return HostDevice.view(memory, 0, (int) memory.size());
  }

  @Override
  public void close() {
    pinned.forEach(PinnedRegion::close);
    pinned.clear();
    host.close();
    if (region != null) {
      region.close();
    }
  }
}
