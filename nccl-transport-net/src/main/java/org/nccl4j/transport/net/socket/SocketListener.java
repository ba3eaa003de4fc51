package org.nccl4j.transport.net.socket;

import java.net.InetAddress;
import java.nio.channels.SocketChannel;
import java.util.List;
import org.nccl4j.api.spi.NetListener;
import org.nccl4j.api.spi.NetReceiver;

/** Awaits the sockets of one connection. */
final class SocketListener implements NetListener {
  private final SocketPort port;
  private final LaneCount lanes;
  private final SocketHandle handle;
  private final SocketChannel[] sockets;
  private int missing;
  private SocketReceiver receiver;
  private boolean closed;

  SocketListener(SocketPort port, LaneCount lanes, List<InetAddress> addresses, int rails) {
    this.port = port;
    this.lanes = lanes;
    this.handle =
        new SocketHandle(
            lanes.lanes(), port.number(), Greeting.random(Greeting.TOKEN_BYTES), addresses, rails);
    this.sockets = new SocketChannel[1 + lanes.lanes()];
    this.missing = sockets.length;
    port.add(handle.token(), this);
  }

  /** Takes a socket that knows the secret, unless it is not one of this connection's. */
  boolean admit(SocketChannel socket, int index, int count) {
    if (closed || count != sockets.length || index < 0 || index >= count) {
      return false;
    }
    if (sockets[index] != null) {
      return false;
    }
    sockets[index] = socket;
    missing--;
    return true;
  }

  @Override
  public byte[] handle() {
    return handle.toBytes();
  }

  @Override
  public NetReceiver accept() {
    if (missing > 0) {
      port.poll();
    }
    if (missing > 0 || receiver != null) {
      return null;
    }
    receiver = new SocketReceiver(sockets, lanes);
    return receiver;
  }

  @Override
  public void close() {
    if (!closed) {
      closed = true;
      port.remove(handle.token());
      for (SocketChannel socket : sockets) {
        if (receiver == null) {
          Closing.close(socket);
        }
      }
    }
  }

  /** Closes what it has accepted, too. */
  void closeAll() {
    close();
    if (receiver != null) {
      receiver.close();
    }
  }

  @Override
  public String toString() {
    return "listens on %s, port %d, %d of %d sockets have come%s"
        .formatted(
            handle.addresses(),
            handle.port(),
            sockets.length - missing,
            sockets.length,
            port.refusals());
  }
}
