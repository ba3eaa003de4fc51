package org.nccl4j.transport.net.memory;

import java.nio.ByteBuffer;
import java.util.List;
import org.nccl4j.api.spi.NetConnection;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.shm.MappedRegion;
import org.nccl4j.device.shm.OwnedFd;
import org.nccl4j.device.shm.SharedSegment;
import org.nccl4j.device.support.CloseAll;

/**
 * Both regions of one end of a connection, in memory of the host. A GPU's kernels reach it as
 * pinned memory, and use the first part of each Simple and LL slot; kernels of the host device use
 * channel 0 alone and all of a slot. Those of another rank map what is shared with it.
 */
public final class HostEndMemory implements EndMemory {
  private final ConnectionLayout layout;
  private final int channels;
  private final boolean whole;

  /** Of the messages in LL of channels. */
  private final LineMark lines;

  private final DeviceMemory host;
  private final Connection connection;

  /** Keeps the addresses; null where the device does. */
  private final AutoCloseable owner;

  /** Null where no kernel of this rank's GPU uses it. */
  private final PinnedParts pinned;

  /** Null where it is not shared. */
  private final SharedSegment segment;

  /** Kernels of the host device. */
  public HostEndMemory(ConnectionLayout layout) {
    this.layout = layout;
    channels = 1;
    whole = true;
    lines = LineMark.NONE;
    owner = null;
    pinned = null;
    segment = null;
    host = HostDevice.instance().ownMemory(bytes(layout));
    connection = new Connection(data(layout, host), credit(layout, host));
  }

  /**
   * A GPU.
   *
   * @param channels that are carried
   * @param lines mark of messages in LL; none where they are in Simple alone
   * @throws org.nccl4j.device.CudaException if the driver pins no more memory
   */
  public HostEndMemory(CudaDevice device, ConnectionLayout layout, int channels, LineMark lines) {
    this.layout = layout;
    this.channels = channels;
    this.lines = lines;
    whole = false;
    segment = null;
    MappedRegion region = MappedRegion.anonymous(bytes(layout));
    owner = region;
    try {
      pinned = new PinnedParts(device, region, layout, channels, carriesLines());
    } catch (RuntimeException e) {
      region.close();
      throw e;
    }
    host = HostDevice.instance().wrap(region.address(), region.bytes());
    DeviceMemory seen = pinned.seen();
    connection = new Connection(data(layout, seen), credit(layout, seen), channels, carriesLines());
  }

  /** Memory that another rank's kernels use, none of this one's. */
  private HostEndMemory(
      SharedSegment segment, ConnectionLayout layout, int channels, boolean whole, LineMark lines) {
    this.layout = layout;
    this.channels = channels;
    this.whole = whole;
    this.lines = lines;
    this.segment = segment;
    owner = segment;
    pinned = null;
    host = HostDevice.instance().wrap(segment.address(), segment.size());
    connection =
        new Connection(
            data(layout, host), credit(layout, host), whole ? 0 : channels, carriesLines());
  }

  /**
   * Memory that a rank of another process can map.
   *
   * @param gpu whether that is on a GPU
   * @param lines mark of messages in LL; none where they are in Simple alone
   */
  public static HostEndMemory shared(
      ConnectionLayout layout, int channels, boolean gpu, LineMark lines) {
    return new HostEndMemory(
        SharedSegment.create(bytes(layout)), layout, channels, !gpu, gpu ? lines : LineMark.NONE);
  }

  private boolean carriesLines() {
    return lines != LineMark.NONE;
  }

  /** Bytes of both regions. */
  public static long bytes(ConnectionLayout layout) {
    return layout.dataBytes() + ConnectionLayout.CREDIT_BYTES;
  }

  /** Returns the data part of both regions. */
  public static DeviceMemory data(ConnectionLayout layout, DeviceMemory all) {
    return all.slice(0, layout.dataBytes());
  }

  /** Returns the credit part of both regions. */
  public static DeviceMemory credit(ConnectionLayout layout, DeviceMemory all) {
    return all.slice(layout.dataBytes(), ConnectionLayout.CREDIT_BYTES);
  }

  /** Bytes that a GPU's kernels use of a Simple slot. */
  public static long used(ConnectionLayout layout, int channels) {
    return (long) channels * (layout.simpleSlotBytes() / ConnectionLayout.CHANNELS);
  }

  private long used() {
    return used(layout, channels);
  }

  /** Bytes that a channel has of a Simple slot. */
  private int part() {
    return layout.simpleSlotBytes() / (whole ? 1 : ConnectionLayout.CHANNELS);
  }

  @Override
  public Connection connection() {
    return connection;
  }

  /** {@inheritDoc} Of a GPU's what is used of each slot: registering takes memory too. */
  @Override
  public ProxyChannel channel(int number, NetConnection network) {
    NetMemory[] memories = new NetMemory[ConnectionLayout.STEPS];
    long[] offsets = new long[ConnectionLayout.STEPS];
    boolean complete = false;
    try {
      NetMemory all = whole ? network.register(data(layout, host)) : null;
      for (int slot = 0; slot < ConnectionLayout.STEPS; slot++) {
        long begin = layout.simple(slot);
        memories[slot] = all == null ? network.register(host.slice(begin, used())) : all;
        offsets[slot] = all == null ? (long) number * part() : begin;
      }
      complete = true;
    } finally {
      if (!complete) {
        ProxyChannel.close(memories);
      }
    }
    return new ProxyChannel(
        number,
        view(data(layout, host)),
        view(credit(layout, host)),
        memories,
        offsets,
        part(),
        whole ? CallNotes.HOST : CallNotes.GPU,
        carriesLines() ? new GpuLineSlots(layout, view(data(layout, host)), number, lines) : null,
        lines.mostPadded(layout));
  }

  private static ByteBuffer view(DeviceMemory memory) {
    return HostDevice.view(memory, 0, (int) memory.size());
  }

  @Override
  public SharedEnd share() {
    if (segment == null) {
      throw new InternalErrorException(
          "memory of one rank is to be shared with another", "report this");
    }
    return new SharedEnd(List.of(new OwnedFd(segment.duplicateFd())), null, 0);
  }

  @Override
  public long bytes() {
    return host.size();
  }

  @Override
  public void close() {
    CloseAll all = new CloseAll();
    if (pinned != null) {
      all.take(pinned::close);
    }
    all.take(host::close);
    if (owner instanceof MappedRegion region) {
      all.take(region::close);
    } else if (owner instanceof SharedSegment shared) {
      all.take(shared::close);
    }
    all.end();
  }
}
