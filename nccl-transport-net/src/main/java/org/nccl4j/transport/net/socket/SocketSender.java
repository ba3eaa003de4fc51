package org.nccl4j.transport.net.socket;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.api.spi.NetRequest;
import org.nccl4j.api.spi.NetSender;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.Patience;

/** The sending end: writes messages one after the other. */
final class SocketSender extends SocketConnection implements NetSender {
  /** Messages up to this size are copied behind their header, so that both are one piece. */
  private static final int COPIED = 1 << 10;

  private static final int BUFFER_BYTES = 16 << 10;
  private static final ByteBuffer NOTHING = ByteBuffer.allocate(0);

  /** Time to wait for room for the goodbye. */
  private static final long LINGER_NANOS = 500_000_000;

  private static final long POLL_NANOS = 100_000;

  private final SocketSource source;
  private final DataSocketCount preferred;
  private final Send[] sends = new Send[REQUESTS];
  private final ByteBuffer buffer = ByteBuffer.allocateDirect(BUFFER_BYTES);
  private final ByteBuffer[] pieces = new ByteBuffer[2];
  private SocketChannel socket;
  private DataSockets lanes;

  /** Messages begun, those that are in the buffer, and those that are written. */
  private long begun;

  private long packed;
  private long written;

  /** The last in the buffer, if its bytes follow from its memory, else null. */
  private Send whole;

  SocketSender(SocketSource source, DataSocketCount preferred, boolean sums) {
    super(source, sums);
    this.source = source;
    this.preferred = preferred;
    buffer.limit(0);
  }

  @Override
  public boolean isConnected() {
    if (socket == null && !isClosed()) {
      SocketChannel[] sockets = source.poll();
      if (sockets != null) {
        connected(sockets);
        DataSocketCount count = preferred.withLanes(sockets.length - 1);
        lanes = new DataSockets(sockets, true, count.threads(), "send-" + peer());
        for (int s = 0; s < REQUESTS; s++) {
          sends[s] = new Send(lanes.count());
        }
        socket = sockets[0];
      }
    }
    return socket != null;
  }

  /** Sends with the first test, together with the messages that begin before that. */
  @Override
  @HotPath
  public NetRequest isend(NetMemory memory, long offset, int bytes, int tag) {
    return isend(memory, offset, bytes, tag, 0);
  }

  @Override
  @HotPath
  public NetRequest isend(NetMemory memory, long offset, int bytes, int tag, int note) {
    Send send = sends[(int) begun & (REQUESTS - 1)];
    if (send.busy || !lanes.haveRoom()) {
      return null;
    }
    send.begin((SocketMemory) memory, offset, bytes, tag, note);
    begun++;
    if (lanes.take(bytes)) {
      lanes.post(send.memory, offset, bytes, send.targets);
    }
    return send;
  }

  /** Writes what there is room for. */
  private void flush() {
    try {
      while (written < begun) {
        if (!buffer.hasRemaining() && whole == null) {
          pack();
        }
        if (!write()) {
          return;
        }
        whole = null;
        written = packed;
      }
    } catch (IOException e) {
      throw broken(e);
    }
  }

  /** Puts messages into the buffer, up to the first that is not copied. */
  private void pack() {
    buffer.clear();
    while (packed < begun && whole == null && buffer.remaining() >= headerBytes + COPIED) {
      Send send = sends[(int) packed & (REQUESTS - 1)];
      ByteBuffer payload = send.memory.view(0, send.offset, send.bytes);
      putHeader(buffer, send.bytes, send.tag, send.note, payload);
      packed++;
      if (lanes.take(send.bytes)) {
        continue;
      }
      if (send.bytes <= COPIED) {
        buffer.put(send.memory.view(0, send.offset, send.bytes));
      } else {
        whole = send;
      }
    }
    buffer.flip();
  }

  /** Puts the header of the next message. */
  private void putHeader(ByteBuffer out, int size, int tag, int note, ByteBuffer payload) {
    out.putInt(size).putInt(tag).putInt(note).putInt(check(packed, size, tag, note));
    if (sums != null) {
      out.putInt(sums.of(packed, size, tag, note, payload));
    }
  }

  /** True if all of the buffer and what follows it was written. */
  private boolean write() throws IOException {
    if (whole == null) {
      socket.write(buffer);
      return !buffer.hasRemaining();
    }
    ByteBuffer payload = whole.memory.view(0, whole.offset + whole.sent, whole.bytes - whole.sent);
    if (buffer.hasRemaining()) {
      pieces[0] = buffer;
      pieces[1] = payload;
      socket.write(pieces);
    } else {
      socket.write(payload);
    }
    whole.sent = whole.bytes - payload.remaining();
    return !buffer.hasRemaining() && !payload.hasRemaining();
  }

  @Override
  void end() {
    if (socket == null) {
      return;
    }
    lanes.close();
    try {
      if (written == begun) {
        sayGoodbye();
      }
      // The receiver of a pair may still need the socket.
      socket.shutdownOutput();
    } catch (IOException e) {
      // The other side has gone already.
      broken(e);
    }
  }

  /** All messages are written; where they fill the socket's buffer, waits a while for room. */
  private void sayGoodbye() throws IOException {
    ByteBuffer goodbye = ByteBuffer.allocate(headerBytes);
    putHeader(goodbye, GOODBYE, 0, 0, NOTHING);
    goodbye.flip();
    long begin = System.nanoTime();
    while (socket.write(goodbye) >= 0
        && goodbye.hasRemaining()
        && System.nanoTime() - begin < LINGER_NANOS) {
      Patience.sleep(POLL_NANOS);
    }
  }

  @Override
  public String toString() {
    return socket == null ? source.toString() : "connected with " + peer();
  }

  /** A message under way. */
  private final class Send implements NetRequest {
    private final long[] targets;
    private SocketMemory memory;
    private long offset;
    private int bytes;
    private int tag;
    private int note;
    private int sent;
    private long number;
    private boolean busy;

    Send(int nLanes) {
      targets = new long[nLanes];
    }

    private void begin(SocketMemory from, long at, int length, int itsTag, int itsNote) {
      memory = from;
      offset = at;
      bytes = length;
      tag = itsTag;
      note = itsNote;
      sent = 0;
      number = begun;
      busy = true;
    }

    @Override
    @HotPath
    public boolean test(int[] sizes) {
      if (written <= number) {
        flush();
      }
      if (written <= number || (lanes.take(bytes) && !lanesDone())) {
        return false;
      }
      busy = false;
      return true;
    }

    private boolean lanesDone() {
      try {
        return lanes.reached(targets);
      } catch (IOException e) {
        throw broken(e);
      }
    }
  }
}
