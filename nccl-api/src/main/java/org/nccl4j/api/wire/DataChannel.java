package org.nccl4j.api.wire;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.ByteChannel;
import java.nio.channels.GatheringByteChannel;
import java.nio.channels.ScatteringByteChannel;
import java.nio.channels.SocketChannel;

/**
 * The bytes of a socket that carries data, plain or with TLS. Never waits. A read takes all bytes
 * that have arrived, as far as there is room. A byte is written once the socket has it; a writer
 * that could not write all bytes continues with the first that was not taken.
 */
public interface DataChannel extends ByteChannel, GatheringByteChannel, ScatteringByteChannel {
  /** Returns the socket, for its addresses and to end its output. */
  SocketChannel socket();

  /**
   * True if the first byte of the next write is fixed, since it is encrypted with those before it:
   * whoever wrote last goes on.
   */
  default boolean owes() {
    return false;
  }

  /** The socket's bytes without TLS. */
  static DataChannel plain(SocketChannel socket) {
    return new Plain(socket);
  }

  /** The socket's bytes without TLS. */
  record Plain(SocketChannel socket) implements DataChannel {
    @Override
    public int read(ByteBuffer target) throws IOException {
      return socket.read(target);
    }

    @Override
    public long read(ByteBuffer[] targets) throws IOException {
      return socket.read(targets);
    }

    @Override
    public long read(ByteBuffer[] targets, int offset, int length) throws IOException {
      return socket.read(targets, offset, length);
    }

    @Override
    public int write(ByteBuffer source) throws IOException {
      return socket.write(source);
    }

    @Override
    public long write(ByteBuffer[] sources) throws IOException {
      return socket.write(sources);
    }

    @Override
    public long write(ByteBuffer[] sources, int offset, int length) throws IOException {
      return socket.write(sources, offset, length);
    }

    @Override
    public boolean isOpen() {
      return socket.isOpen();
    }

    @Override
    public void close() throws IOException {
      socket.close();
    }
  }
}
