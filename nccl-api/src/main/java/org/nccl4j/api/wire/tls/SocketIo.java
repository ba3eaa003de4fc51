package org.nccl4j.api.wire.tls;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;

/**
 * The bytes of a connection's socket, plain or with TLS. Never waits.
 *
 * <p>Owner thread: the loop's, but for {@link #write} and {@link #flush}, which are called under
 * the connection's lock.
 */
public interface SocketIo {
  /** Reads as {@link SocketChannel#read(ByteBuffer)} does. */
  int read(ByteBuffer target) throws IOException;

  /** Takes what it can; 0 where it can take nothing now. */
  int write(ByteBuffer source) throws IOException;

  /** Sends what it has taken and could not send; whether nothing is left. */
  boolean flush() throws IOException;

  /** True if nothing is left that it has taken. */
  boolean isFlushed();

  /** True if it has read more of the socket than was read of it. */
  boolean holdsData();

  /** True if it could take something once the socket has room. */
  boolean takesData();

  /** The socket's bytes as they are. */
  record Plain(SocketChannel channel) implements SocketIo {
    @Override
    public int read(ByteBuffer target) throws IOException {
      return channel.read(target);
    }

    @Override
    public int write(ByteBuffer source) throws IOException {
      return channel.write(source);
    }

    @Override
    public boolean flush() {
      return true;
    }

    @Override
    public boolean isFlushed() {
      return true;
    }

    @Override
    public boolean holdsData() {
      return false;
    }

    @Override
    public boolean takesData() {
      return true;
    }
  }
}
