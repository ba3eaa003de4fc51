package org.nccl4j.transport.net.socket.link;

import java.io.IOException;
import java.nio.ByteBuffer;
import org.nccl4j.api.spi.Failovers;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.api.spi.NetRequest;
import org.nccl4j.api.spi.NetSender;
import org.nccl4j.api.wire.DataChannel;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.support.Patience;

/**
 * The sending end: writes messages one after the other. A short message ends once it is written,
 * since the link's log has a copy. The memory of any other stays the network's until the receiver
 * has acknowledged the message.
 */
public final class SocketSender extends SocketConnection implements NetSender {
  private static final ByteBuffer NOTHING = ByteBuffer.allocate(0);

  /** Time to wait for room for the goodbye, and for the last acknowledgement. */
  private static final long LINGER_NANOS = 500_000_000;

  private static final long POLL_NANOS = 100_000;

  private final SocketSource source;
  private final DataSocketCount preferred;
  private final SharedSocketThreads threads;
  private final Send[] sends = new Send[REQUESTS];
  private SocketLink link;
  private SendLog log;
  private DataSockets lanes;
  private long[] targets;

  private int looks;

  /** Messages begun; the first of them are in the log. */
  private long begun;

  public SocketSender(SocketSource source, DataSocketCount preferred, SharedSocketThreads threads) {
    super(source);
    this.source = source;
    this.preferred = preferred;
    this.threads = threads;
  }

  @Override
  public boolean isConnected() {
    if (link == null && !isClosed()) {
      SocketLink connected = source.poll();
      if (connected != null) {
        connect(connected);
      }
    }
    return link != null;
  }

  private void connect(SocketLink connected) {
    DataChannel[] sockets = connected.sockets();
    DataSocketCount count = preferred.withLanes(sockets.length - 1);
    lanes =
        new DataSockets(
            sockets, true, count, threads, "send-" + connected.peer(), connected.silence());
    lanes.shareBy(source.shares());
    targets = new long[lanes.count()];
    connected.carriedBy(lanes);
    for (int s = 0; s < REQUESTS; s++) {
      sends[s] = new Send();
    }
    log = connected.log();
    link = connected;
  }

  @Override
  int sockets() {
    return 1 + lanes.count();
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
    if (send.onLanes) {
      lanes.post(send.memory, offset, bytes, targets);
    }
    return send;
  }

  /** Writes as much as the socket takes, and reads acknowledgements if they are awaited. */
  private void progress(boolean awaited) {
    link.check();
    if (link.socket() == null || !link.enter()) {
      return;
    }
    try {
      if (link.socket() != null && (!flush() || awaited && ++looks % link.looksForAck() == 0)) {
        link.readAcks();
      }
    } catch (IOException e) {
      link.broke(e);
    } finally {
      link.leave();
    }
    link.check();
  }

  /** Writes as much as the socket takes; false if the log has no room for the next message. */
  private boolean flush() throws IOException {
    boolean room = true;
    while (link.writeAck()) {
      long before = log.packed();
      room = pack();
      long written = log.written();
      if (!log.write(link.socket())) {
        return true;
      }
      if (log.packed() == before && log.written() == written) {
        link.acknowledge(false);
        return room;
      }
    }
    return true;
  }

  /** Puts messages into the log, up to the first that is not copied; false if it has no room. */
  private boolean pack() {
    while (log.packed() < begun) {
      Send send = sends[(int) log.packed() & (REQUESTS - 1)];
      boolean acknowledges = link.hasAck();
      int header = acknowledges ? 2 * link.headerBytes : link.headerBytes;
      ByteBuffer ring = log.begin(send.copied ? header + send.bytes : header);
      if (ring == null) {
        return false;
      }
      if (acknowledges) {
        link.putAck(ring);
      }
      ByteBuffer payload = send.memory.view(0, send.offset, send.bytes);
      boolean last = !send.copied && log.packed() + 1 == begun;
      int note = last ? send.note | SocketLink.LAST : send.note;
      link.putHeader(ring, log.packed(), send.bytes, send.tag, note, payload);
      if (send.copied) {
        ring.put(send.memory.view(0, send.offset, send.bytes));
      }
      int rest = send.copied || send.onLanes ? 0 : send.bytes;
      log.end(header, send.memory, send.offset, rest);
      link.attend();
      if (rest > 0) {
        return true;
      }
    }
    return true;
  }

  @Override
  void end() {
    if (link == null) {
      return;
    }
    lanes.close();
    boolean mine = link.enterSoon();
    try {
      if (mine && link.socket() != null) {
        sayGoodbye();
      }
    } catch (IOException e) {
      // The other side has gone already.
    } finally {
      link.closeSender();
      if (mine) {
        link.leave();
      }
    }
  }

  /**
   * All messages are written; where they fill the socket's buffer, waits a while for room. What the
   * receiver acknowledges after the socket is closed would destroy what is still in its buffer, so
   * this waits for that, too.
   */
  private void sayGoodbye() throws IOException {
    DataChannel socket = link.socket();
    if (log.written() < begun) {
      socket.socket().shutdownOutput();
      return;
    }
    ByteBuffer goodbye = ByteBuffer.allocate(link.headerBytes);
    link.putHeader(goodbye, begun, SocketLink.GOODBYE, 0, 0, NOTHING);
    goodbye.flip();
    long end = System.nanoTime() + LINGER_NANOS;
    while (!(link.writeAck() && socket.write(goodbye) >= 0 && !goodbye.hasRemaining())) {
      if (System.nanoTime() - end > 0) {
        socket.socket().shutdownOutput();
        return;
      }
      Patience.sleep(POLL_NANOS);
    }
    while (log.acked() < log.packed() && link.mayLinger(POLL_NANOS)) {
      link.readAcks();
      Patience.sleep(POLL_NANOS);
    }
  }

  @Override
  public Failovers failovers() {
    return link == null ? Failovers.NONE : link.failovers();
  }

  @Override
  public String toString() {
    return link == null ? source.toString() : "connected with " + link.peer();
  }

  /** A message under way. */
  private final class Send implements NetRequest {
    private SocketMemory memory;
    private long offset;
    private int bytes;
    private int tag;
    private int note;
    private long number;

    /** True if the log has the message's bytes, and true if lanes carry them. */
    private boolean copied;

    private boolean onLanes;
    private boolean busy;

    private void begin(SocketMemory from, long at, int length, int itsTag, int itsNote) {
      memory = from;
      offset = at;
      bytes = length;
      tag = itsTag;
      note = itsNote;
      onLanes = lanes.take(length);
      copied = !onLanes && length <= SendLog.COPIED;
      number = begun;
      busy = true;
    }

    @Override
    @HotPath
    public boolean test(int[] sizes) {
      if (!isDone()) {
        if (onLanes) {
          lanes.check();
        }
        progress(!copied);
      }
      busy = !isDone();
      return !busy;
    }

    @Override
    @HotPath
    public boolean needsTurns() {
      return log.written() <= number;
    }

    private boolean isDone() {
      return copied ? log.written() > number : log.acked() > number;
    }
  }
}
