package org.nccl4j.transport.net.plugin;

import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.api.spi.NetReceiver;
import org.nccl4j.api.spi.NetRequest;
import org.nccl4j.device.Device;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.InvalidArgumentException;

/** The receiving end of a connection through a plug-in. */
final class PluginReceiver extends PluginConnection implements NetReceiver {
  PluginReceiver(PluginTable table, long receiver) {
    super(table);
    this.connection = receiver;
  }

  @Override
  @HotPath
  public NetRequest irecv(int n, NetMemory[] memories, long[] offsets, int[] bytes, int[] tags) {
    checkGroup(n);
    if (!hasRequest()) {
      return null;
    }
    boolean wide = table.hasWideSizes();
    for (int i = 0; i < n; i++) {
      place(i, memories[i], offsets[i]);
      block.putInt(TAGS + i * Integer.BYTES, tags[i]);
      if (wide) {
        block.putLong(SIZES + i * Long.BYTES, bytes[i]);
      } else {
        block.putInt(SIZES + i * Integer.BYTES, bytes[i]);
      }
    }
    block.putLong(REQUEST, 0);
    table.irecv(connection, n, at + ADDRESSES, at + SIZES, at + TAGS, at + HANDLES, at + REQUEST);
    return begun(n);
  }

  /** Data in memory of the host need no flush. */
  @Override
  @HotPath
  public NetRequest iflush(int n, NetMemory[] memories, long[] offsets, int[] bytes) {
    checkGroup(n);
    boolean gpu = false;
    for (int i = 0; i < n; i++) {
      gpu |= bytes[i] > 0 && memories[i].memory().device().kind() == Device.Kind.CUDA;
    }
    if (!gpu) {
      return null;
    }
    for (int i = 0; i < n; i++) {
      place(i, memories[i], offsets[i]);
      block.putInt(SIZES + i * Integer.BYTES, bytes[i]);
    }
    block.putLong(REQUEST, 0);
    table.iflush(connection, n, at + ADDRESSES, at + SIZES, at + HANDLES, at + REQUEST);
    return begun(n);
  }

  @HotPath
  private void place(int i, NetMemory memory, long offset) {
    PluginMemory to = (PluginMemory) memory;
    block.putLong(ADDRESSES + i * Long.BYTES, to.address() + offset);
    block.putLong(HANDLES + i * Long.BYTES, to.handle());
  }

  @HotPath
  private static void checkGroup(int n) {
    if (n < 1 || n > GROUP) {
      throw tooMany(n);
    }
  }

  private static InvalidArgumentException tooMany(int n) {
    return new InvalidArgumentException(
        ErrorId.COUNT,
        "a group of %d receives".formatted(n),
        "begin 1 to %d at a time".formatted(GROUP));
  }

  @Override
  void end(long ended) {
    table.closeRecv(ended);
  }
}
