package org.nccl4j.transport.net.socket;

import java.io.IOException;
import java.net.ProtocolException;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.SocketChannel;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.api.spi.NetReceiver;
import org.nccl4j.api.spi.NetRequest;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.InvalidArgumentException;

/**
 * The receiving end: reads messages one after the other. Headers and short messages are read into a
 * buffer first, so that a short message takes one system call; the rest of a long message goes
 * straight into its memory.
 */
final class SocketReceiver extends SocketConnection implements NetReceiver {
  /**
   * Messages up to about here take one read, and are copied once more; so does a larger's begin.
   */
  private static final int BUFFER_BYTES = 16 << 10;

  private final SocketChannel socket;
  private final DataSockets lanes;
  private final Receive[] receives = new Receive[REQUESTS];
  private final ByteBuffer buffer = ByteBuffer.allocateDirect(BUFFER_BYTES);
  private final ByteBuffer[] pieces = new ByteBuffer[2];
  private long begun;

  /** Headers that have been read. */
  private long headers;

  /** The message that is being read into its memory, or null. */
  private Receive current;

  /** True if the last read took all that had come, so that another would bring nothing. */
  private boolean drained;

  private boolean goodbye;

  SocketReceiver(
      SocketSource source, SocketChannel[] sockets, DataSocketCount count, boolean sums) {
    super(source, sums);
    connected(sockets);
    socket = sockets[0];
    lanes = new DataSockets(sockets, false, count.threads(), "recv-" + peer());
    for (int r = 0; r < REQUESTS; r++) {
      receives[r] = new Receive(lanes.count());
    }
    buffer.limit(0);
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
    receive.begin((SocketMemory) memories[0], offsets[0], bytes[0], tags[0]);
    begun++;
    return receive;
  }

  @Override
  @HotPath
  public NetRequest iflush(int n, NetMemory[] memories, long[] offsets, int[] bytes) {
    return null;
  }

  /** Reads what has come. */
  private void progress() {
    try {
      while (!goodbye) {
        if (current == null && !next()) {
          return;
        }
        if (current != null && !fill()) {
          return;
        }
        if (drained && buffer.remaining() < headerBytes) {
          return;
        }
      }
    } catch (IOException e) {
      throw broken(e);
    }
  }

  /** Reads a header; true if there was one for an awaited message. */
  private boolean next() throws IOException {
    if (buffer.remaining() < headerBytes && !read(null)) {
      return false;
    }
    int size = buffer.getInt(buffer.position());
    int tag = buffer.getInt(buffer.position() + Integer.BYTES);
    int note = buffer.getInt(buffer.position() + 2 * Integer.BYTES);
    int check = buffer.getInt(buffer.position() + 3 * Integer.BYTES);
    if (check != check(headers, size, tag, note)) {
      throw new DamagedMessageException(
          "the header of message %d is damaged (size %d, tag %d, check %08x instead of %08x)"
              .formatted(headers, size, tag, check, check(headers, size, tag, note)));
    }
    if (size == GOODBYE) {
      goodbye = true;
      return true;
    }
    Receive receive = awaiting(tag);
    if (receive == null) {
      return false;
    }
    if (size < 0 || size > receive.capacity) {
      throw new ProtocolException(
          "a message of %d bytes came where %d were awaited".formatted(size, receive.capacity));
    }
    receive.note = note;
    receive.number = headers;
    receive.sum = sums == null ? 0 : buffer.getInt(buffer.position() + HEADER_BYTES);
    buffer.position(buffer.position() + headerBytes);
    headers++;
    receive.size = size;
    if (lanes.take(size)) {
      receive.onLanes = true;
      lanes.post(receive.memory, receive.offset, size, receive.targets);
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
      got = socket.read(buffer);
    } else {
      room += message.remaining();
      pieces[0] = message;
      pieces[1] = buffer;
      got = socket.read(pieces);
    }
    drained = got < room;
    buffer.flip();
    if (got < 0) {
      throw new ClosedChannelException();
    }
    return message == null ? buffer.remaining() >= headerBytes : got > 0;
  }

  @Override
  void end() {
    lanes.close();
  }

  @Override
  public String toString() {
    return "connected with " + peer();
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

    private boolean onLanes;
    private boolean complete;
    private boolean busy;

    Receive(int nLanes) {
      targets = new long[nLanes];
    }

    private void begin(SocketMemory to, long at, int most, int itsTag) {
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
        progress();
        if (!complete && onLanes && lanesDone()) {
          endOnLanes();
        }
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
      return note;
    }

    /** All bytes have come. */
    private void end() throws DamagedMessageException {
      if (sums != null) {
        int found = sums.of(number, size, tag, note, memory.view(0, offset, size));
        if (found != sum) {
          throw new DamagedMessageException(
              ("message %d of %d bytes (tag %d) is damaged: its CRC32C is %08x, that of the sent one"
                      + " %08x")
                  .formatted(number, size, tag, found, sum));
        }
      }
      complete = true;
    }

    private void endOnLanes() {
      try {
        end();
      } catch (IOException e) {
        throw broken(e);
      }
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
