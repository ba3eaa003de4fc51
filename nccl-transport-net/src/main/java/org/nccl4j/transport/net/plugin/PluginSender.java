package org.nccl4j.transport.net.plugin;

import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.api.spi.NetRequest;
import org.nccl4j.api.spi.NetSender;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.bind.Offheap;

/** The sending end of a connection through a plug-in. */
final class PluginSender extends PluginConnection implements NetSender {
  private static final int SENDER = PluginTable.HANDLE_BYTES;
  private static final int OFFLOAD = SENDER + Long.BYTES;
  private static final int CONFIG = OFFLOAD + Long.BYTES;
  private static final int UNDEFINED = -1;

  private final long context;
  private final int device;

  /** The handle of a connection under way, in which the plug-in keeps its state. */
  private final Offheap dialing = new Offheap(CONFIG + Long.BYTES);

  private boolean dialed;

  PluginSender(PluginTable table, long context, int device, byte[] handle) {
    super(table);
    this.context = context;
    this.device = device;
    dialing.bytes().put(0, handle);
    dialing.putInt(CONFIG, UNDEFINED);
  }

  @Override
  public boolean isConnected() {
    if (!dialed) {
      dialing.putLong(SENDER, 0).putLong(OFFLOAD, 0);
      dialing.lend(
          address -> {
            table.connect(
                context, device, address + CONFIG, address, address + SENDER, address + OFFLOAD);
            return 0;
          });
      connection = dialing.getLong(SENDER);
      dialed = connection != 0;
    }
    return connection != 0;
  }

  @Override
  @HotPath
  public NetRequest isend(NetMemory memory, long offset, int bytes, int tag) {
    if (!hasRequest()) {
      return null;
    }
    PluginMemory from = (PluginMemory) memory;
    block.putLong(REQUEST, 0);
    table.isend(connection, from.address() + offset, bytes, tag, from.handle(), at + REQUEST);
    return begun(1);
  }

  @Override
  void end(long ended) {
    table.closeSend(ended);
  }
}
