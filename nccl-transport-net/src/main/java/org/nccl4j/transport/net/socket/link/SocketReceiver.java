package org.nccl4j.transport.net.socket.link;

import java.io.IOException;
import java.net.ProtocolException;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedChannelException;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.api.spi.NetReceiver;
import org.nccl4j.api.spi.NetRequest;
import org.nccl4j.api.wire.DataChannel;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.InvalidArgumentException;

/**
 * The receiving end: reads messages one after the other. Headers and short messages are read into a
 * buffer first, so that a short message takes one system call; the rest of a long message goes
 * straight into its memory.
 */
public final class SocketReceiver extends SocketConnection
    implements NetReceiver, SocketLink.Reader {
  /**
   * Messages up to about here take one read, and are copied once more; so does a larger's begin.
   */
  private static final int BUFFER_BYTES = 16 << 10;

  private static final int LOOKS_UNTIL_WATCH = 4096;

  private final SocketLink link;
  private final DataSockets lanes;
  private final Receive[] receives = new Receive[REQUESTS];
  private final ByteBuffer buffer = ByteBuffer.allocateDirect(BUFFER_BYTES);
  private final ByteBuffer[] pieces = new ByteBuffer[2];
  private long begun;
  private int looks;

  /** By number: whether a message is here whose forerunners are not all. */
  private final boolean[] here = new boolean[2 * REQUESTS];

  private final int[] sizes = new int[2 * REQUESTS];

  /** Messages that are here without a gap. */
  private long arrived;

  /** Messages whose acknowledgement the sender waits for; 0 for none. */
  private long asked;

  /** Headers that have been read. */
  private long headers;

  /** The message that is being read into its memory, or null. */
  private Receive current;

  /** True if the last read took all that had come, so that another would bring nothing. */
  private boolean drained;

  private boolean goodbye;
  private boolean blocked;

  public SocketReceiver(
      SocketSource source, SocketLink link, DataSocketCount count, SharedSocketThreads threads) {
    super(source);
    this.link = link;
    DataChannel[] sockets = link.sockets();
    lanes = new DataSockets(sockets, false, count, threads, "recv-" + link.peer(), link.silence());
    lanes.shareBy(source.shares());
    if (lanes.count() > 0) {
      link.carriedBy(lanes);
    }
    for (int r = 0; r < REQUESTS; r++) {
      receives[r] = new Receive(lanes.count());
    }
    buffer.limit(0);
    link.readBy(this);
  }

  @Override
  public boolean redirects() {
    return true;
  }

  @Override
  int sockets() {
    return 1 + lanes.count();
  }

  @Override
  @HotPath
  public NetRequest irecv(int n, NetMemory[] memories, long[] offsets, int[] bytes, int[] tags) {
    if (n != 1) {
      throw new InvalidArgumentException(
          ErrorId.COUNT,
          "a group of %d receives".formatted(n),
          "sockets take one receive at a time");
    }
    Receive receive = receives[(int) begun & (REQUESTS - 1)];
    if (receive.busy) {
      return null;
    }
    // The watch may be reading, and must find all of the receive or nothing.
    if (!link.enter()) {
      return null;
    }
    receive.begin((SocketMemory) memories[0], offsets[0], bytes[0], tags[0]);
    begun++;
    link.leave();
    return receive;
  }

  @Override
  @HotPath
  public boolean owesAnswer() {
    return link.owesAnswer();
  }

  @Override
  @HotPath
  public NetRequest iflush(int n, NetMemory[] memories, long[] offsets, int[] bytes) {
    return null;
  }

  /** Reads what has come, and acknowledges it; goes on with a receive on lanes. */
  private void progress(Receive awaited) {
    link.check();
    if (link.socket() == null && !awaited.onLanes || !link.enter()) {
      return;
    }
    try {
      if (link.socket() != null) {
        read();
      }
      if (awaited.onLanes && !awaited.complete && lanes.reached(awaited.targets)) {
        awaited.end();
      }
      if (link.socket() != null) {
        link.acknowledge(isLast());
      }
    } catch (IOException e) {
      link.broke(e);
    } finally {
      link.leave();
    }
    if (!awaited.complete) {
      if (++looks % LOOKS_UNTIL_WATCH == 0) {
        link.attend(); // the other side may have dialled because it alone saw the socket break
      }
      link.check();
    }
  }

  /** True if no receive is left, so that nobody may ask again for a long time. */
  private boolean isLast() {
    for (long r = begun - 1; r >= Math.max(0, begun - REQUESTS); r--) {
      Receive receive = receives[(int) r & (REQUESTS - 1)];
      if (receive.busy && !receive.complete) {
        return false;
      }
    }
    return true;
  }

  @Override
  public void read() throws IOException {
    while (!goodbye || link.awaitsAcks()) {
      if (current == null && !next()) {
        return;
      }
      if (current != null && !fill()) {
        return;
      }
      if (drained && buffer.remaining() < link.headerBytes) {
        return;
      }
    }
  }

  @Override
  public boolean isBlocked() {
    return blocked;
  }

  @Override
  public boolean hasGoodbye() {
    return goodbye;
  }

  @Override
  public long position() {
    return current == null ? headers : current.number;
  }

  @Override
  public long got() {
    return current == null ? -1 : current.got;
  }

  @Override
  public void forget() {
    buffer.clear().limit(0);
    drained = false;
    blocked = false;
  }

  /** Reads a header; true if there was one for an awaited message. */
  private boolean next() throws IOException {
    blocked = false;
    if (buffer.remaining() < link.headerBytes && !read(null)) {
      return false;
    }
    int size = buffer.getInt(buffer.position());
    if (size == SocketLink.ACK) {
      link.takeAck(buffer);
      return true;
    }
    if (size == SocketLink.ASK) {
      link.takeQuestion(buffer);
      return true;
    }
    int tag = buffer.getInt(buffer.position() + Integer.BYTES);
    int note = buffer.getInt(buffer.position() + 2 * Integer.BYTES);
    int check = buffer.getInt(buffer.position() + 3 * Integer.BYTES);
    if (check != SocketLink.check(headers, size, tag, note)) {
      throw new DamagedMessageException(
          "the header of message %d is damaged (size %d, tag %d, check %08x instead of %08x)"
              .formatted(headers, size, tag, check, SocketLink.check(headers, size, tag, note)));
    }
    if (size == SocketLink.GOODBYE) {
      goodbye = true;
      buffer.position(buffer.position() + link.headerBytes);
      link.acknowledge(true);
      return true;
    }
    Receive receive = awaiting(tag);
    if (receive == null) {
      blocked = true;
      return false;
    }
    if (size < 0 || size > receive.capacity) {
      throw new ProtocolException(
          "a message of %d bytes came where %d were awaited".formatted(size, receive.capacity));
    }
    receive.note = note;
    receive.number = headers;
    receive.sum =
        link.sums == null ? 0 : buffer.getInt(buffer.position() + SocketLink.HEADER_BYTES);
    buffer.position(buffer.position() + link.headerBytes);
    headers++;
    receive.size = size;
    receive.choose();
    if (lanes.take(size)) {
      receive.onLanes = true;
      lanes.post(receive.memory, receive.offset, size, receive.targets);
      link.attend();
    } else {
      current = receive;
    }
    return true;
  }

  /** The oldest receive of a tag that has no message yet. */
  private Receive awaiting(int tag) {
    for (long r = Math.max(0, begun - REQUESTS); r < begun; r++) {
      Receive receive = receives[(int) r & (REQUESTS - 1)];
      if (receive.busy && receive.size < 0 && receive.tag == tag) {
        return receive;
      }
    }
    return null;
  }

  /** Goes on with the current message; whether it is complete. */
  private boolean fill() throws IOException {
    int left = current.size - current.got;
    ByteBuffer to = current.memory.view(0, current.offset + current.got, left);
    int buffered = Math.min(left, buffer.remaining());
    if (buffered > 0) {
      int end = buffer.limit();
      buffer.limit(buffer.position() + buffered);
      to.put(buffer);
      buffer.limit(end);
    }
    boolean more = true;
    while (to.hasRemaining() && more) {
      more = read(to);
    }
    current.got = current.size - to.remaining();
    if (to.hasRemaining()) {
      return false;
    }
    current.end();
    current = null;
    return true;
  }

  /** A message is here: it is acknowledged with those before it. */
  private void arrived(long number, int bytes, boolean last) {
    if (last) {
      asked = number + 1;
    }
    here[(int) number & (here.length - 1)] = true;
    sizes[(int) number & (here.length - 1)] = bytes;
    int slot = (int) arrived & (here.length - 1);
    while (here[slot]) {
      here[slot] = false;
      boolean copied = sizes[slot] <= SendLog.COPIED && !lanes.take(sizes[slot]);
      link.received(++arrived, sizes[slot], copied);
      slot = (int) arrived & (here.length - 1);
    }
    if (asked > 0 && arrived >= asked) {
      asked = 0;
      link.acknowledgeSoon();
    }
  }

  /** One read, into a message's memory first; whether it brought as much as is needed to go on. */
  private boolean read(ByteBuffer message) throws IOException {
    if (buffer.hasRemaining()) {
      buffer.compact();
    } else {
      buffer.clear();
    }
    long room = buffer.remaining();
    long got;
    if (message == null) {
      got = link.socket().read(buffer);
    } else {
      room += message.remaining();
      pieces[0] = message;
      pieces[1] = buffer;
      got = link.socket().read(pieces);
    }
    drained = got < room;
    buffer.flip();
    if (got < 0) {
      throw new ClosedChannelException();
    }
    link.moved(got);
    return message == null ? buffer.remaining() >= link.headerBytes : got > 0;
  }

  @Override
  void end() {
    lanes.close();
    boolean mine = link.enterSoon();
    try {
      for (Receive receive : receives) {
        receive.busy = false;
      }
      current = null;
      if (mine && link.socket() != null) {
        link.acknowledge(true);
      }
    } catch (IOException e) {
      // The other side has gone already.
    } finally {
      if (mine) {
        link.leave();
      }
    }
  }

  @Override
  public String toString() {
    return "connected with " + link.peer();
  }

  /** A message awaited. */
  private final class Receive implements NetRequest {
    private final long[] targets;
    private SocketMemory memory;
    private long offset;
    private int capacity;
    private int tag;
    private int size;
    private int note;
    private int got;
    private long number;

    /** The sum that the sender computed. */
    private int sum;

    /** The memory that it has been moved to; null for none. */
    private SocketMemory redirected;

    private long redirectedOffset;
    private int redirectedBytes;
    private boolean onLanes;

    /** Publishes the message's bytes and all fields above; written last. */
    private volatile boolean complete;

    private boolean busy;

    Receive(int nLanes) {
      targets = new long[nLanes];
    }

    private void begin(SocketMemory to, long at, int most, int itsTag) {
      redirected = null;
      memory = to;
      offset = at;
      capacity = most;
      tag = itsTag;
      size = -1;
      got = 0;
      onLanes = false;
      complete = false;
      busy = true;
    }

    @Override
    @HotPath
    public boolean test(int[] sizes) {
      if (!complete) {
        progress(this);
      }
      if (!complete) {
        return false;
      }
      busy = false;
      if (sizes != null) {
        sizes[0] = size;
      }
      return true;
    }

    @Override
    @HotPath
    public int note() {
      return note & (SocketLink.LAST - 1);
    }

    @Override
    @HotPath
    public boolean redirect(NetMemory to, long at, int bytes) {
      if (!link.enter()) {
        return false;
      }
      try {
        if (size >= 0) {
          return false;
        }
        redirected = (SocketMemory) to;
        redirectedOffset = at;
        redirectedBytes = bytes;
        return true;
      } finally {
        link.leave();
      }
    }

    @Override
    @HotPath
    public boolean isRedirected() {
      return redirected != null;
    }

    /** The message has a size: it goes to where it was moved, or not. */
    private void choose() {
      if (redirected != null && size == redirectedBytes) {
        memory = redirected;
        offset = redirectedOffset;
      } else {
        redirected = null;
      }
    }

    /** All bytes have come. */
    private void end() throws DamagedMessageException {
      if (link.sums != null) {
        int found = link.sums.of(number, size, tag, note, memory.view(0, offset, size));
        if (found != sum) {
          throw new DamagedMessageException(
              ("message %d of %d bytes (tag %d) is damaged: its CRC32C is %08x, that of the sent one"
                      + " %08x")
                  .formatted(number, size, tag, found, sum));
        }
      }
      arrived(number, size, (note & SocketLink.LAST) != 0);
      complete = true;
    }
  }
}
