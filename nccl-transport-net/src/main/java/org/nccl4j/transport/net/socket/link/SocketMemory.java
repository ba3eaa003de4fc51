package org.nccl4j.transport.net.socket.link;

import java.nio.ByteBuffer;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.host.HostDevice;

/**
 * Memory as byte buffers, a set for each socket, since a buffer has one position. Buffers begin
 * every 512 MiB and are twice as long, so that any message lies inside one.
 */
public final class SocketMemory implements NetMemory {
  /** Most bytes of a message. */
  public static final int MAX_MESSAGE = 1 << 29;

  private final DeviceMemory memory;
  private final ByteBuffer[][] views;

  /**
   * Host memory.
   *
   * @param sockets that will move messages in it
   */
  SocketMemory(DeviceMemory memory, int sockets) {
    if (memory.device().kind() != Device.Kind.HOST) {
      throw new InvalidArgumentException(
          ErrorId.BUFFER,
          memory + " is not host memory, which is all that sockets can use",
          "copy it through host memory");
    }
    this.memory = memory;
    int windows = (int) ((Math.max(1, memory.size()) + MAX_MESSAGE - 1) / MAX_MESSAGE);
    this.views = new ByteBuffer[sockets][windows];
    for (int w = 0; w < windows; w++) {
      long begin = (long) w * MAX_MESSAGE;
      ByteBuffer window =
          HostDevice.view(memory, begin, (int) Math.min(2L * MAX_MESSAGE, memory.size() - begin));
      for (int s = 0; s < sockets; s++) {
        views[s][w] = window.duplicate();
      }
    }
  }

  /** A socket's buffer, from an offset over some bytes. */
  @HotPath
  ByteBuffer view(int socket, long offset, int bytes) {
    ByteBuffer view = views[socket][(int) (offset / MAX_MESSAGE)];
    int begin = (int) (offset % MAX_MESSAGE);
    view.limit(begin + bytes).position(begin);
    return view;
  }

  @Override
  public DeviceMemory memory() {
    return memory;
  }

  @Override
  public void close() {}
}
