package org.nccl4j.transport.net.memory;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.List;
import org.nccl4j.api.spi.NetConnection;
import org.nccl4j.api.spi.NetDevice;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.shm.OwnedFd;

/**
 * One end of a connection whose slots lie in a GPU's memory, where a network card reads and writes
 * them itself (GPUDirect RDMA). The words stay with the host, since the proxy polls and stores
 * them; kernels see both behind one address.
 */
public final class GpuEndMemory implements EndMemory {
  private final ConnectionLayout layout;
  private final int channels;
  private final LineMark lines;
  private final List<NetDevice.Pointers> ways;
  private final GdrSlotPool bank;
  private final GdrSlotPool.Place place;
  private final Connection connection;

  /** Of the slots; null before the first channel and after the last. */
  private OwnedFd dmaBuf;

  /**
   * Creates an end's memory in a bank of slots.
   *
   * @param channels that are carried
   * @param lines mark of messages in LL that the other end may look for; this one carries none
   * @param ways how the card may be told of the memory, best first
   */
  GpuEndMemory(
      GdrSlotPool bank,
      ConnectionLayout layout,
      int channels,
      LineMark lines,
      List<NetDevice.Pointers> ways) {
    this.layout = layout;
    this.channels = channels;
    this.lines = lines;
    this.ways = ways;
    this.bank = bank;
    place = bank.take();
    // Both sides' words are apart from the slots of LL that follow: none is carried.
    host().fill((byte) 0);
    connection =
        new Connection(
            place.range().seen(place.words(), layout.dataBytes()),
            place.range().seen(credit(), ConnectionLayout.CREDIT_BYTES),
            channels,
            /* lines= */ false);
  }

  private long credit() {
    return place.words() + ConnectionLayout.CREDIT_BYTES;
  }

  /** The words of both sides, as the processor sees them. */
  private DeviceMemory host() {
    return HostDevice.instance()
        .wrap(place.range().boundary() + place.words(), 2 * ConnectionLayout.CREDIT_BYTES);
  }

  private static ByteBuffer view(DeviceMemory words, long offset) {
    return HostDevice.view(words, offset, (int) ConnectionLayout.CREDIT_BYTES);
  }

  @Override
  public Connection connection() {
    return connection;
  }

  @Override
  public ProxyChannel channel(int number, NetConnection network) {
    int part = layout.simpleSlotBytes() / ConnectionLayout.CHANNELS;
    NetMemory[] memories = new NetMemory[ConnectionLayout.STEPS];
    long[] offsets = new long[ConnectionLayout.STEPS];
    Arrays.fill(memories, register(network, (long) channels * part));
    if (number == channels - 1) {
      forgetDmaBuf();
    }
    for (int slot = 0; slot < ConnectionLayout.STEPS; slot++) {
      offsets[slot] = (long) slot * layout.simpleSlotBytes() + (long) number * part;
    }
    DeviceMemory words = host();
    return new ProxyChannel(
        number,
        view(words, 0),
        view(words, ConnectionLayout.CREDIT_BYTES),
        memories,
        offsets,
        part,
        lines.mostPadded(layout));
  }

  /** All slots at once, by the first way that works. */
  private NetMemory register(NetConnection network, long used) {
    long last = (long) (ConnectionLayout.STEPS - 1) * layout.simpleSlotBytes();
    DeviceMemory slots = place.range().seen(place.slots(), last + used);
    return GpuBuffers.byFirst(
        ways,
        way ->
            way == NetDevice.Pointers.DMA_BUF
                ? registerDmaBuf(network, slots)
                : network.register(slots));
  }

  /** The same dma-buf for all channels: their networks can share what the card knows of it. */
  private NetMemory registerDmaBuf(NetConnection network, DeviceMemory slots) {
    if (dmaBuf == null) {
      dmaBuf = place.range().exportDmaBuf();
    }
    return network.registerDmaBuf(slots, dmaBuf.value(), place.slots());
  }

  private void forgetDmaBuf() {
    if (dmaBuf != null) {
      dmaBuf.close();
      dmaBuf = null;
    }
  }

  @Override
  public SharedEnd share() {
    return bank.share(place);
  }

  @Override
  public long bytes() {
    return HostEndMemory.bytes(layout);
  }

  @Override
  public void close() {
    forgetDmaBuf();
    bank.leave(place);
  }
}
