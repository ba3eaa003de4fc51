package org.nccl4j.transport.net.socket;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.api.spi.NetRequest;
import org.nccl4j.api.spi.NetSender;
import org.nccl4j.device.HotPath;

/** The sending end: writes messages one after the other. */
final class SocketSender extends SocketConnection implements NetSender {
  /** Messages up to here are copied behind their header, which makes them one piece to write. */
  private static final int COPIED = 1 << 10;

  private final Dial dial;
  private final LaneCount preferred;
  private final Send[] sends = new Send[REQUESTS];
  private final ByteBuffer[] pieces = new ByteBuffer[2];
  private SocketChannel socket;
  private Lanes lanes;

  /** Messages begun, and messages whose share of the first socket is written. */
  private long begun;

  private long written;

  SocketSender(Dial dial, LaneCount preferred) {
    this.dial = dial;
    this.preferred = preferred;
  }

  @Override
  public boolean isConnected() {
    if (socket == null && !isClosed()) {
      SocketChannel[] sockets = dial.poll();
      if (sockets != null) {
        connected(sockets);
        LaneCount count = preferred.withLanes(dial.lanes());
        lanes = new Lanes(sockets, true, count.threads(), "send-" + peer());
        for (int s = 0; s < REQUESTS; s++) {
          sends[s] = new Send(lanes.count());
        }
        socket = sockets[0];
      }
    }
    return socket != null;
  }

  @Override
  @HotPath
  public NetRequest isend(NetMemory memory, long offset, int bytes, int tag) {
    Send send = sends[(int) begun & (REQUESTS - 1)];
    if (send.busy || !lanes.haveRoom()) {
      return null;
    }
    send.begin((SocketMemory) memory, offset, bytes, tag);
    begun++;
    if (lanes.take(bytes)) {
      lanes.post(send.memory, offset, bytes, send.targets);
    }
    flush();
    return send;
  }

  /** Writes what there is room for. */
  private void flush() {
    try {
      while (written < begun) {
        if (!write(sends[(int) written & (REQUESTS - 1)])) {
          return;
        }
        written++;
      }
    } catch (IOException e) {
      throw broken(e);
    }
  }

  private boolean write(Send send) throws IOException {
    int inline = lanes.take(send.bytes) ? 0 : send.bytes;
    ByteBuffer payload = send.memory.view(0, send.offset + send.sent, inline - send.sent);
    if (!payload.hasRemaining()) {
      socket.write(send.header);
    } else if (send.header.hasRemaining()) {
      pieces[0] = send.header;
      pieces[1] = payload;
      socket.write(pieces);
    } else {
      socket.write(payload);
    }
    send.sent = inline - payload.remaining();
    return !send.header.hasRemaining() && !payload.hasRemaining();
  }

  @Override
  void end() {
    if (socket == null) {
      dial.close();
      return;
    }
    lanes.close();
    if (written == begun) {
      try {
        ByteBuffer goodbye = ByteBuffer.allocate(HEADER_BYTES);
        socket.write(goodbye.putInt(0, GOODBYE));
      } catch (IOException e) {
        // The other side is gone already.
        broken(e);
      }
    }
  }

  @Override
  public String toString() {
    return socket == null ? dial.toString() : "connected with " + peer();
  }

  /** A message under way. */
  private final class Send implements NetRequest {
    private final ByteBuffer header = ByteBuffer.allocateDirect(HEADER_BYTES + COPIED);
    private final long[] targets;
    private SocketMemory memory;
    private long offset;
    private int bytes;
    private int sent;
    private long number;
    private boolean busy;

    Send(int nLanes) {
      targets = new long[nLanes];
    }

    private void begin(SocketMemory from, long at, int length, int tag) {
      memory = from;
      offset = at;
      bytes = length;
      sent = 0;
      number = begun;
      busy = true;
      header.clear();
      header.putInt(0, length).putInt(Integer.BYTES, tag);
      if (length <= COPIED && !lanes.take(length)) {
        ByteBuffer payload = from.view(0, at, length);
        header.put(HEADER_BYTES, payload, payload.position(), length);
        header.limit(HEADER_BYTES + length);
        sent = length;
      } else {
        header.limit(HEADER_BYTES);
      }
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
