package org.nccl4j.transport.net;

import java.nio.ByteBuffer;
import java.util.List;
import org.nccl4j.api.spi.TransportContext;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.cuda.memory.RdmaMemory;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.shm.MappedRegion;
import org.nccl4j.device.shm.SharedSegment;
import org.nccl4j.device.support.CloseAll;
import org.nccl4j.transport.net.memory.HostEndMemory;
import org.nccl4j.transport.net.memory.PinnedParts;
import org.nccl4j.transport.net.memory.SharedEnd;
import org.nccl4j.transport.net.memory.StepWords;

/** Memory of another rank that sends for this one, as this one's kernels see it. */
final class PxnMemory implements AutoCloseable {
  private final Connection connection;
  private final ByteBuffer data;
  private final ByteBuffer credit;

  /** Steps that free the memory, in order. */
  private final List<Runnable> steps;

  private PxnMemory(
      Connection connection, DeviceMemory data, DeviceMemory credit, Runnable... steps) {
    this.connection = connection;
    this.data = HostDevice.view(data, 0, (int) ConnectionLayout.CREDIT_BYTES);
    this.credit = HostDevice.view(credit, 0, (int) ConnectionLayout.CREDIT_BYTES);
    this.steps = List.of(steps);
  }

  /**
   * Maps what has come, whose descriptors it closes.
   *
   * @throws org.nccl4j.device.NcclException if it cannot be mapped, with the reason
   */
  static PxnMemory of(SharedEnd end, TransportContext context, int channels) {
    try (end) {
      return end.memory() == null
          ? ofHost(end, context, channels)
          : ofGpu(end, (CudaDevice) context.device(), context.layout(), channels);
    }
  }

  /** The proxy carries LL too: slots in memory of the host have lines. */
  private static PxnMemory ofHost(SharedEnd end, TransportContext context, int channels) {
    ConnectionLayout layout = context.layout();
    MappedRegion region = SharedSegment.attach(end.fds().get(0), HostEndMemory.bytes(layout));
    DeviceMemory host = HostDevice.instance().wrap(region.address(), region.bytes());
    DeviceMemory words = HostEndMemory.data(layout, host);
    DeviceMemory credit = HostEndMemory.credit(layout, host);
    if (!(context.device() instanceof CudaDevice device)) {
      return new PxnMemory(new Connection(words, credit), words, credit, region::close);
    }
    try {
      PinnedParts pinned = new PinnedParts(device, region, layout, channels, /* lines= */ true);
      DeviceMemory seen = pinned.seen();
      Connection connection =
          new Connection(
              HostEndMemory.data(layout, seen),
              HostEndMemory.credit(layout, seen),
              channels,
              /* lines= */ true);
      return new PxnMemory(connection, words, credit, pinned::close, region::close);
    } catch (RuntimeException e) {
      region.close();
      throw e;
    }
  }

  private static PxnMemory ofGpu(
      SharedEnd end, CudaDevice device, ConnectionLayout layout, int channels) {
    RdmaMemory memory =
        RdmaMemory.importFrom(
            device.gpu(), end.memory(), end.fds().get(0).value(), end.fds().get(1).value());
    // The memory stays alive while it is mapped.
    try (memory) {
      RdmaMemory.Range range = memory.map();
      long credit = end.words() + ConnectionLayout.CREDIT_BYTES;
      DeviceMemory words =
          HostDevice.instance()
              .wrap(range.boundary() + end.words(), 2 * ConnectionLayout.CREDIT_BYTES);
      Connection connection =
          new Connection(
              range.seen(end.words(), layout.dataBytes()),
              range.seen(credit, ConnectionLayout.CREDIT_BYTES),
              channels,
              /* lines= */ false);
      return new PxnMemory(
          connection,
          words,
          words.slice(ConnectionLayout.CREDIT_BYTES, ConnectionLayout.CREDIT_BYTES),
          range::close);
    }
  }

  /** Returns the connection as this rank's device sees it. */
  Connection connection() {
    return connection;
  }

  /** True if all that kernels have filled on a channel has been sent. */
  boolean isSent(int channel) {
    boolean lines = connection.carried() > 0 && connection.lines();
    return StepWords.isSent(data, credit, channel, lines);
  }

  @Override
  public void close() {
    CloseAll.each(steps, Runnable::run);
  }
}
