package org.nccl4j.transport.net.memory;

import org.nccl4j.api.spi.NetConnection;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.HostDevice;

/**
 * Users' buffers as memory of a connection that registers freely ({@link
 * NetConnection#registersFreely}). It knows them by their addresses alone, so they can be freed
 * while it knows them. Owned by the thread that gives the connection's proxy its turns.
 */
public final class FreeBuffers implements AutoCloseable {
  /** Buffers that are known at a time: an operation has one or two. */
  private static final int MOST = 16;

  private final NetConnection network;
  private final NetMemory[] known = new NetMemory[MOST];

  /** The place of the buffer that was found last. */
  private int last;

  /** The place that makes room for the next. */
  private int next;

  /** Buffers of one connection. */
  public FreeBuffers(NetConnection network) {
    this.network = network;
  }

  /**
   * Finds memory that holds some bytes.
   *
   * @param address of the first byte
   * @param buffer address of the buffer that holds them
   * @param size bytes of that buffer
   */
  @HotPath
  public NetMemory find(long address, int bytes, long buffer, long size) {
    if (!holds(last, address, bytes) && !look(address, bytes)) {
      add(buffer, size);
    }
    return known[last];
  }

  private boolean look(long address, int bytes) {
    for (int place = 0; place < MOST; place++) {
      if (holds(place, address, bytes)) {
        last = place;
        return true;
      }
    }
    return false;
  }

  @HotPath
  private boolean holds(int place, long address, int bytes) {
    if (known[place] == null) {
      return false;
    }
    DeviceMemory memory = known[place].memory();
    return address >= memory.address() && address + bytes <= memory.address() + memory.size();
  }

  private void add(long buffer, long size) {
    NetMemory made = network.register(HostDevice.instance().wrap(buffer, size));
    if (known[next] != null) {
      known[next].close();
    }
    known[next] = made;
    last = next;
    next = (next + 1) % MOST;
  }

  @Override
  public void close() {
    ProxyChannel.close(known);
  }
}
