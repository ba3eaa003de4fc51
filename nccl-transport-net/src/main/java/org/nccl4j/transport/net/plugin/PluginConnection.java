package org.nccl4j.transport.net.plugin;

import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.nccl4j.api.spi.NetConnection;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.support.CloseAll;

/** The common part of both ends of a connection through a plug-in. */
abstract class PluginConnection implements NetConnection {
  /** Messages that can be under way. */
  private static final int REQUESTS = 64;

  /** Most receives of a group that the plug-in is asked for. */
  static final int GROUP = 32;

  // Places in the block; the arrays have room for a group.
  static final int REQUEST = 0;
  static final int DONE = 8;
  static final int ADDRESSES = 16;
  static final int SIZES = ADDRESSES + GROUP * Long.BYTES;
  static final int TAGS = SIZES + GROUP * Long.BYTES;
  static final int HANDLES = TAGS + GROUP * Integer.BYTES;
  private static final int BLOCK_BYTES = HANDLES + GROUP * Long.BYTES;

  final PluginTable table;
  final Offheap block = new Offheap(BLOCK_BYTES);
  final long at = block.address();
  private final PluginRequest[] free = new PluginRequest[REQUESTS];
  private int nFree = REQUESTS;

  /** The memory that the plug-in knows for it. */
  private final Set<PluginMemory> memories = new HashSet<>();

  /** The plug-in's object; 0 before it is connected and after it is closed. */
  long connection;

  PluginConnection(PluginTable table) {
    this.table = table;
    for (int r = 0; r < REQUESTS; r++) {
      free[r] = new PluginRequest(this);
    }
  }

  @Override
  public NetMemory register(DeviceMemory memory) {
    checkConnected();
    table.register(connection, memory.address(), memory.size(), type(memory), at + REQUEST);
    return registered(memory);
  }

  @Override
  public NetMemory registerDmaBuf(DeviceMemory memory, int fd, long offset) {
    checkConnected();
    table.registerDmaBuf(
        connection, memory.address(), memory.size(), type(memory), offset, fd, at + REQUEST);
    return registered(memory);
  }

  private PluginMemory registered(DeviceMemory memory) {
    PluginMemory made = new PluginMemory(this, memory, block.getLong(REQUEST));
    memories.add(made);
    return made;
  }

  private static int type(DeviceMemory memory) {
    return memory.device().kind() == Device.Kind.CUDA
        ? PluginTable.CUDA_POINTER
        : PluginTable.HOST_POINTER;
  }

  private void checkConnected() {
    if (connection == 0) {
      throw new InvalidUsageException(
          ErrorId.CLOSED,
          "memory is registered with a connection that is not open",
          "register it between isConnected() and close()");
    }
  }

  /** Has the plug-in forget memory; again: nothing. */
  void deregister(PluginMemory memory) {
    if (memories.remove(memory)) {
      table.deregister(connection, memory.handle());
    }
  }

  /** True if another message can be under way. */
  @HotPath
  final boolean hasRequest() {
    return nFree > 0 && connection != 0;
  }

  /** The request whose handle the plug-in has stored; null if it has stored none. */
  @HotPath
  final PluginRequest begun(int n) {
    long handle = block.getLong(REQUEST);
    if (handle == 0) {
      return null;
    }
    PluginRequest request = free[--nFree];
    request.begin(handle, n);
    return request;
  }

  /** Looks at a request. */
  @HotPath
  final boolean test(PluginRequest request, long handle, int n, int[] sizes) {
    if (connection == 0) {
      throw closed();
    }
    block.putInt(DONE, 0);
    table.test(handle, at + DONE, at + SIZES);
    if (block.getInt(DONE) == 0) {
      return false;
    }
    if (sizes != null) {
      for (int i = 0; i < n; i++) {
        sizes[i] = block.getInt(SIZES + i * Integer.BYTES);
      }
    }
    free[nFree++] = request;
    return true;
  }

  final InvalidUsageException closed() {
    return new InvalidUsageException(
        ErrorId.CLOSED,
        "a message is awaited on a connection that is closed",
        "end all messages before close()");
  }

  /** Closes the plug-in's object. */
  abstract void end(long ended);

  /** {@inheritDoc} A plug-in need not forget memory with the connection that it is known for. */
  @Override
  public final void close() {
    if (connection != 0) {
      CloseAll all = new CloseAll();
      List.copyOf(memories).forEach(memory -> all.take(() -> deregister(memory)));
      long ended = connection;
      connection = 0;
      all.take(() -> end(ended));
      all.end();
    }
  }
}
