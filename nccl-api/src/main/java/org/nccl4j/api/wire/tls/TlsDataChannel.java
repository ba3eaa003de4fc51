package org.nccl4j.api.wire.tls;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import org.nccl4j.api.wire.DataChannel;

/**
 * Data or control messages over a connection with TLS. Encrypted bytes may wait for room in the
 * socket; so that the writer calls again, the last of those bytes counts as written only once the
 * socket has all. A write that needs the other side's part of the handshake also reads it, so a
 * side that only writes makes progress.
 *
 * <p>One thread at a time reads, and one writes.
 */
final class TlsDataChannel implements DataChannel {
  private static final ByteBuffer NOTHING = ByteBuffer.allocate(0);

  /** Buffers of which one write takes bytes. */
  private static final int MOST_SOURCES = 2;

  private final SocketChannel socket;
  private final TlsIo io;
  private final ByteBuffer[] one = new ByteBuffer[1];
  private final int[] begins = new int[MOST_SOURCES];

  /** True if the next byte to write is encrypted already. */
  private boolean owed;

  TlsDataChannel(SocketChannel socket, TlsIo io) {
    this.socket = socket;
    this.io = io;
  }

  @Override
  public SocketChannel socket() {
    return socket;
  }

  @Override
  public int read(ByteBuffer target) throws IOException {
    io.flush();
    return io.read(target);
  }

  @Override
  public long read(ByteBuffer[] targets) throws IOException {
    return read(targets, 0, targets.length);
  }

  @Override
  public long read(ByteBuffer[] targets, int offset, int length) throws IOException {
    io.flush();
    long bytes = 0;
    for (int t = offset; t < offset + length; t++) {
      if (targets[t].hasRemaining()) {
        int got = io.read(targets[t]);
        if (got < 0) {
          return bytes > 0 ? bytes : got;
        }
        bytes += got;
      }
      if (targets[t].hasRemaining()) {
        return bytes;
      }
    }
    return bytes;
  }

  @Override
  public int write(ByteBuffer source) throws IOException {
    one[0] = source;
    return (int) write(one, 0, 1);
  }

  @Override
  public long write(ByteBuffer[] sources) throws IOException {
    return write(sources, 0, sources.length);
  }

  @Override
  public long write(ByteBuffer[] sources, int offset, int length) throws IOException {
    if (!io.flush()) {
      return 0;
    }
    int several = Math.min(length, MOST_SOURCES);
    int skipped = owed && skip(sources, offset, several) ? 1 : 0;
    for (int s = 0; s < several; s++) {
      begins[s] = sources[offset + s].position();
    }
    long taken = io.write(sources, offset, several);
    if (taken == 0 && !io.takesData()) {
      if (io.read(NOTHING) < 0) {
        throw new IOException("the other side closed the connection");
      }
      taken = io.write(sources, offset, several);
    }
    if (taken > 0 && !io.isFlushed()) {
      stepBack(sources, offset, several);
      owed = true;
      taken--;
    }
    return skipped + taken;
  }

  /** Leaves out the byte that was encrypted with those before it. */
  private boolean skip(ByteBuffer[] sources, int offset, int length) {
    for (int s = offset; s < offset + length; s++) {
      if (sources[s].hasRemaining()) {
        sources[s].position(sources[s].position() + 1);
        owed = false;
        return true;
      }
    }
    return false;
  }

  private void stepBack(ByteBuffer[] sources, int offset, int length) {
    for (int s = length - 1; s >= 0; s--) {
      ByteBuffer source = sources[offset + s];
      if (source.position() > begins[s]) {
        source.position(source.position() - 1);
        return;
      }
    }
  }

  @Override
  public boolean owes() {
    return owed;
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
