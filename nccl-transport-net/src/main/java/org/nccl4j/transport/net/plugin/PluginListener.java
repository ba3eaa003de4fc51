package org.nccl4j.transport.net.plugin;

import org.nccl4j.api.spi.NetListener;
import org.nccl4j.api.spi.NetReceiver;
import org.nccl4j.device.bind.Offheap;

/** Waits for one connection through a plug-in. */
final class PluginListener implements NetListener {
  private static final int RECEIVER = PluginTable.HANDLE_BYTES;
  private static final int OFFLOAD = RECEIVER + Long.BYTES;

  private final PluginNet net;
  private final Offheap block = new Offheap(OFFLOAD + Long.BYTES);
  private final byte[] handle;
  private long listener;
  private boolean accepted;

  PluginListener(PluginNet net, long context, int device) {
    this.net = net;
    block.lend(
        address -> {
          net.table().listen(context, device, address, address + RECEIVER);
          return 0;
        });
    this.listener = block.getLong(RECEIVER);
    this.handle = net.handle(block.bytes().slice(0, PluginTable.HANDLE_BYTES));
  }

  @Override
  public byte[] handle() {
    return handle.clone();
  }

  @Override
  public NetReceiver accept() {
    if (accepted || listener == 0) {
      return null;
    }
    block.putLong(RECEIVER, 0).putLong(OFFLOAD, 0);
    block.lend(
        address -> {
          net.table().accept(listener, address + RECEIVER, address + OFFLOAD);
          return 0;
        });
    long receiver = block.getLong(RECEIVER);
    if (receiver == 0) {
      return null;
    }
    accepted = true;
    PluginReceiver made = new PluginReceiver(net.table(), receiver);
    net.add(made);
    return made;
  }

  @Override
  public void close() {
    if (listener != 0) {
      long ended = listener;
      listener = 0;
      net.table().closeListen(ended);
    }
  }
}
