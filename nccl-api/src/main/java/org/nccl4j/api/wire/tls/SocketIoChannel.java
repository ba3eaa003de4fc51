package org.nccl4j.api.wire.tls;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.ByteChannel;
import java.nio.channels.SocketChannel;

/**
 * A {@link SocketIo} as a channel that never waits. A write that needs the other side's part of the
 * handshake also reads it, so a side that only writes makes progress. Owned by one thread at a
 * time.
 */
final class SocketIoChannel implements ByteChannel {
  private static final ByteBuffer NOTHING = ByteBuffer.allocate(0);

  private final SocketChannel channel;
  private final SocketIo wire;

  SocketIoChannel(SocketChannel channel, SocketIo wire) {
    this.channel = channel;
    this.wire = wire;
  }

  @Override
  public int read(ByteBuffer target) throws IOException {
    wire.flush();
    return wire.read(target);
  }

  @Override
  public int write(ByteBuffer source) throws IOException {
    if (!wire.flush()) {
      return 0;
    }
    int taken = wire.write(source);
    if (taken == 0 && source.hasRemaining()) {
      if (wire.read(NOTHING) < 0) {
        throw new IOException("the other side closed the connection");
      }
      taken = wire.write(source);
    }
    wire.flush();
    return taken;
  }

  @Override
  public boolean isOpen() {
    return channel.isOpen();
  }

  @Override
  public void close() throws IOException {
    channel.close();
  }
}
