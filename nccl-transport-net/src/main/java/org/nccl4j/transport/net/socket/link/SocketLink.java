package org.nccl4j.transport.net.socket.link;

import java.io.IOException;
import java.lang.System.Logger.Level;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.NetworkInterface;
import java.net.ProtocolException;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.time.Duration;
import javax.net.ssl.SSLException;
import org.nccl4j.api.spi.Failovers;
import org.nccl4j.api.wire.DataChannel;
import org.nccl4j.api.wire.Sockets;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RemoteException;
import org.nccl4j.device.support.Patience;
import org.nccl4j.transport.net.failover.Failover;
import org.nccl4j.transport.net.failover.Turn;
import org.nccl4j.transport.net.socket.silence.MovedException;
import org.nccl4j.transport.net.socket.silence.Silence;

/**
 * The sockets of a connection, or of the two connections that share one, with what lets another
 * socket take over from a broken one: the log of what was sent, and acknowledgements of what was
 * received. One thread at a time has the link's turn: the one that polls an end, or the {@link
 * SocketWatch}.
 */
public final class SocketLink implements SocketWatch.Watched, DataSocket.Owner {
  /** Reads messages, and the acknowledgements between them; with the link's turn. */
  interface Reader {
    /** Reads what has come. */
    void read() throws IOException;

    /** Returns the number of the message that is read next, or is being read. */
    long position();

    /** Returns the bytes of the message that is being read; -1 if none is. */
    long got();

    /** True if a message has come that nobody awaits, so that nothing behind it can be read. */
    boolean isBlocked();

    /** Forgets what was read in advance, which another socket brings again. */
    void forget();

    /** True if the sender has closed in order. */
    boolean hasGoodbye();
  }

  /** Size, tag, note and check of the message that follows, 4 bytes each; then its sum, if any. */
  public static final int HEADER_BYTES = 16;

  /** Size that says that the sender has closed. */
  static final int GOODBYE = -1;

  /** Size of a frame that says how many messages have been received: its tag and note. */
  static final int ACK = -2;

  /**
   * Added to the note of a long message behind which no other has begun: its sender may wait for
   * the acknowledgement.
   */
  static final int LAST = 1 << 16;

  /** Size of a frame that asks for an acknowledgement, though there is nothing new. */
  static final int ASK = -3;

  /**
   * Size of a frame by which a receiver says where a lane has stopped: see {@link
   * org.nccl4j.transport.net.socket.silence.LaneSilence}.
   */
  private static final int STOPPED = -4;

  private static final System.Logger LOG = DebugLog.of("NET");
  private static final ByteBuffer NOTHING = ByteBuffer.allocate(0);

  /** Spreads the numbers of messages over all bits. */
  private static final long SPREAD = 0x9e3779b97f4a7c15L;

  /** Bytes of short messages after which they are acknowledged, and number of messages. */
  private static final int ACK_BYTES = SendLog.RING / 4;

  private static final int ACK_MESSAGES = SendLog.RECORDS / 4;
  private static final int ACKS_AT_ONCE = 16;

  /** Share of a longer message: after a few of them the sender has no memory left to fill. */
  private static final int LONG_MESSAGE_BYTES = ACK_BYTES / 4;

  /** Number of reads that bring nothing after which an acknowledgement is not put off any more. */
  private static final int IDLE_READS = 32;

  /** The same where the sender may wait for it: a message of this side may take it along first. */
  private static final int ASKED_READS = 3;

  private static final int LOOKS_WITH_RECEIVER = 16;
  private static final int LOOKS_ALONE = 4;

  /** Null if messages carry no sums. */
  final MessageSum sums;

  /** Length of a header, with the sum. */
  final int headerBytes;

  private final DataChannel[] sockets;
  private final SocketWatch watch;
  private final SpareSockets spare;
  private final Resumption resumption;
  private final SendLog log = new SendLog();
  private final Silence silence;
  private final ByteBuffer ack;
  private final ByteBuffer acks;

  private final Turn turn = new Turn();

  private volatile Reader receiver;
  private volatile DataSockets lanes;

  /** True while messages can be replayed: the sender, if there is one, is open. */
  private volatile boolean senderClosed;

  /** The socket, or null while it is broken. */
  private volatile DataChannel socket;

  private volatile NcclException failure;
  private volatile boolean over;

  /** Written with the link's turn. */
  private volatile Failovers failovers = Failovers.NONE;

  private String self = "?";
  private String peer = "?";

  /** Messages that are here, without a gap, and those that the other end knows of. */
  private volatile long received;

  private volatile long told;

  /** Bytes of the messages that the other end does not know of. */
  private long owed;

  /** True if a sender needs the memory of one of them, and the reads since the last of them. */
  private boolean owesLong;

  /** True if the sender may wait for an acknowledgement. Written with the turn. */
  private volatile boolean asked;

  private int idleReads;

  private IOException cause;
  private long brokenSince;

  /** Bytes moved, and how many there were when the socket broke last. */
  private long moved;

  private long movedBefore = -1;

  /**
   * A link over connected sockets.
   *
   * @param sockets the connection's; replaced ones are put there
   * @param spare makes others
   */
  public SocketLink(DataChannel[] sockets, SpareSockets spare, SocketWatch watch, boolean sums) {
    this.sockets = sockets;
    this.spare = spare;
    this.watch = watch;
    this.sums = sums ? new MessageSum() : null;
    this.headerBytes = HEADER_BYTES + (sums ? MessageSum.BYTES : 0);
    this.resumption = new Resumption(spare, 0, watch.bound(), System::nanoTime);
    this.silence = new Silence(watch.silence(), spare.dials(), System.nanoTime());
    this.ack = ByteBuffer.allocateDirect(headerBytes).limit(0);
    this.acks = ByteBuffer.allocateDirect(ACKS_AT_ONCE * headerBytes);
    this.socket = sockets[0];
    name();
    for (DataChannel each : sockets) {
      KeepAlive.set(each.socket(), watch.silence());
    }
    watch.add(this);
  }

  private void name() {
    try {
      self = Sockets.text((InetSocketAddress) sockets[0].socket().getLocalAddress());
      peer = Sockets.text((InetSocketAddress) sockets[0].socket().getRemoteAddress());
    } catch (IOException e) {
      peer = "an address that is gone";
    }
  }

  public DataChannel[] sockets() {
    return sockets;
  }

  SendLog log() {
    return log;
  }

  String peer() {
    return peer;
  }

  /** Returns the time after which another socket is tried in place of a silent one. */
  Duration silence() {
    return watch.silence();
  }

  /** Has messages read by a receiver. */
  void readBy(Reader end) {
    receiver = end;
  }

  /** Replaces sockets of lanes, too. */
  void carriedBy(DataSockets further) {
    lanes = further;
  }

  // --- Turns ---

  @HotPath
  boolean enter() {
    return turn.enter();
  }

  @HotPath
  void leave() {
    turn.leave();
  }

  /** Takes the turn as soon as its owner leaves; false if the owner keeps it for too long. */
  boolean enterSoon() {
    return turn.enterSoon();
  }

  /** The socket, or null while there is none to read or write. */
  @HotPath
  DataChannel socket() {
    return socket;
  }

  /** Throws what ended the link, the same every time. */
  @HotPath
  void check() {
    NcclException end = failure;
    if (end != null) {
      throw end;
    }
  }

  // --- Frames ---

  /**
   * The last word of a header. A tag that nobody awaits may be awaited later; so it is this by
   * which a receiver knows that what it reads is no header.
   *
   * @param number of messages on this link before this one
   */
  @HotPath
  static int check(long number, int size, int tag, int note) {
    return (int) ((number + 1) * SPREAD >>> 32)
        ^ size
        ^ Integer.rotateLeft(tag, 16)
        ^ Integer.rotateLeft(note, 8);
  }

  /** Puts the header of a message. */
  @HotPath
  void putHeader(ByteBuffer to, long number, int size, int tag, int note, ByteBuffer payload) {
    to.putInt(size).putInt(tag).putInt(note).putInt(check(number, size, tag, note));
    if (sums != null) {
      to.putInt(sums.of(number, size, tag, note, payload));
    }
  }

  /** True if an acknowledgement is worth its bytes before a message. */
  @HotPath
  boolean hasAck() {
    return received != told;
  }

  /** Puts an acknowledgement of all that has been received. */
  @HotPath
  void putAck(ByteBuffer to) {
    putHeader(to, received, ACK, (int) received, (int) (received >>> 32), NOTHING);
    told = received;
    owed = 0;
    owesLong = false;
    asked = false;
  }

  /** Takes the acknowledgement at a buffer's position, or the report of a lane. */
  @HotPath
  void takeAck(ByteBuffer from) throws IOException {
    int at = from.position();
    int tag = from.getInt(at + Integer.BYTES);
    int note = from.getInt(at + 2 * Integer.BYTES);
    if (from.getInt(at) == STOPPED) {
      takeReport(tag, note, from.getInt(at + 3 * Integer.BYTES));
      from.position(at + headerBytes);
      return;
    }
    long number = (long) note << 32 | tag & 0xffffffffL;
    if (from.getInt(at) != ACK
        || from.getInt(at + 3 * Integer.BYTES) != check(number, ACK, tag, note)) {
      throw new DamagedMessageException("an acknowledgement is damaged");
    }
    from.position(at + headerBytes);
    log.acknowledge(number);
  }

  /** Takes the question at a buffer's position. */
  void takeQuestion(ByteBuffer from) throws IOException {
    int at = from.position();
    if (from.getInt(at + 3 * Integer.BYTES) != check(0, ASK, 0, 0)) {
      throw new DamagedMessageException("a question is damaged");
    }
    from.position(at + headerBytes);
    silence.answerSoon();
  }

  private void takeReport(int tag, int note, int check) throws IOException {
    if (lanes == null || check != check(0, STOPPED, tag, note)) {
      throw new DamagedMessageException("the report of a socket is damaged");
    }
    lanes.takeReport(tag, note, System.nanoTime());
  }

  /** All messages before a number are here. */
  @HotPath
  void received(long messages, int bytes, boolean copied) {
    received = messages;
    owed += copied ? bytes : LONG_MESSAGE_BYTES;
    owesLong |= !copied;
    idleReads = 0;
    watch.attend();
  }

  /** The sender may wait for an acknowledgement of what has been received. */
  @HotPath
  void acknowledgeSoon() {
    asked = true;
  }

  /** True if the sender may wait for an acknowledgement that can be sent. Any thread. */
  @HotPath
  boolean owesAnswer() {
    return asked && socket != null && failure == null;
  }

  /** Has the link watched: a message is under way, or has not come for some time. */
  @HotPath
  void attend() {
    watch.attend();
  }

  /** One look in so many of a sender that awaits an acknowledgement asks for it. */
  @HotPath
  int looksForAck() {
    return receiver != null ? LOOKS_WITH_RECEIVER : LOOKS_ALONE;
  }

  /** As if so many messages had been sent, received and acknowledged; for tests. */
  void startAt(long messages) {
    log.startAt(messages);
    received = messages;
    told = messages;
  }

  /** True if this side's sender does not know that all of its messages have been received. */
  @HotPath
  boolean awaitsAcks() {
    return log.acked() < log.packed();
  }

  // --- Progress, by the thread that has the turn ---

  /** Writes the rest of an acknowledgement; true if none is left. */
  @HotPath
  boolean writeAck() throws IOException {
    if (ack.hasRemaining()) {
      socket.write(ack);
    }
    return !ack.hasRemaining();
  }

  /**
   * Acknowledges what was received, unless that can wait for a message of this side, or something
   * is written in part.
   *
   * @param all whether all is acknowledged
   */
  @HotPath
  void acknowledge(boolean all) throws IOException {
    if (!hasAck() && !ack.hasRemaining()) {
      return;
    }
    boolean due =
        owed >= ACK_BYTES
            || received - told >= ACK_MESSAGES
            || owesLong && ++idleReads > (asked ? ASKED_READS : IDLE_READS)
            || all;
    if (writeAck() && due && hasAck() && isBetweenFrames()) {
      putAck(ack.clear());
      ack.flip();
      writeAck();
    }
  }

  /** Reads acknowledgements; what else comes goes to the receiver. */
  @HotPath
  void readAcks() throws IOException {
    if (receiver != null) {
      receiver.read();
      return;
    }
    while (true) {
      int room = acks.remaining();
      int got = socket.read(acks);
      if (got < 0) {
        throw new ClosedChannelException();
      }
      moved(got);
      acks.flip();
      while (acks.remaining() >= headerBytes) {
        takeAck(acks);
      }
      acks.compact();
      if (got < room) {
        return;
      }
    }
  }

  /** Bytes have been written or read. */
  @HotPath
  void moved(long bytes) {
    moved += bytes;
  }

  /** The sender does not replay its messages any more. */
  void closeSender() {
    senderClosed = true;
  }

  /**
   * Takes so much of the time that a communicator's links may linger for others when they close.
   */
  boolean mayLinger(long nanos) {
    return watch.mayLinger(nanos);
  }

  // --- Failures ---

  /** The socket broke: another takes over, or the link ends. */
  void broke(IOException e) {
    if (over || failure != null) {
      return;
    }
    if (e instanceof DamagedMessageException
        || e instanceof ProtocolException
        || watch.bound().isZero()
        || senderClosed && log.acked() < log.packed()) {
      fail(e, "");
      return;
    }
    if (socket != null) {
      cause = e;
      if (moved != movedBefore || e instanceof MovedException) {
        brokenSince = System.nanoTime();
      }
      movedBefore = moved;
      Sockets.close(socket);
      socket = null;
    }
    watch.wake();
  }

  @Override
  public void fail(IOException e, String attempts) {
    if (failure != null) {
      return;
    }
    if (e instanceof DamagedMessageException || e instanceof SSLException) {
      failure =
          new RemoteException(
              ErrorId.DAMAGED,
              "on the connection from %s to %s %s%s"
                  .formatted(peer, self, e.getMessage(), attempts),
              "test memory, NICs, cables and switches of the two hosts if it recurs between them"
                  + (e instanceof SSLException || sums != null
                      ? ""
                      : "; NCCL4J_NET_CHECKSUM=crc32c checks all bytes"),
              e);
    } else {
      String how = e instanceof ClosedChannelException ? "the other side is gone" : e.getMessage();
      failure =
          new RemoteException(
              ErrorId.CONNECTION,
              "the connection with %s broke: %s%s".formatted(peer, how, attempts),
              "look at the process on the other side, and at the network",
              e);
    }
  }

  @Override
  public void lookFailed(Throwable e) {
    if (failure == null) {
      failure =
          e instanceof NcclException known
              ? known
              : new InternalErrorException(
                  "the connection from %s to %s failed unexpectedly (%s)".formatted(self, peer, e),
                  "report this with the stack trace",
                  e);
    }
  }

  @Override
  public boolean isUnderWay() {
    DataSockets further = lanes;
    return !over
        && failure == null
        && (socket == null
            || awaitsAcks() && !senderClosed
            || hasAck()
            || silence.isAsking()
            || further != null && further.areBusy());
  }

  @Override
  public boolean mayRest(Selector selector) throws IOException {
    Reader end = receiver;
    if (over || failure != null || end != null && end.hasGoodbye()) {
      return true;
    }
    if (socket == null || end != null && end.isBlocked()) {
      return false;
    }
    boolean home = true;
    for (int place = 0; place < sockets.length; place++) {
      sockets[place].socket().register(selector, SelectionKey.OP_READ);
      home &= spare.isAtHome(place);
    }
    return home;
  }

  @Override
  public void rested(long now) {
    if (enter()) {
      silence.rested(now, moved);
      leave();
    }
  }

  @Override
  public boolean look() {
    long now = System.nanoTime();
    silence.look(now);
    if (over || failure != null || !turn.enterNext()) {
      return socket == null && failure == null;
    }
    try {
      if (over) {
        return false;
      }
      if (socket != null && spare.isOffered(0)) {
        broke(new IOException("the other side has dialled again"));
      }
      if (socket != null) {
        glance(now);
      }
      if (socket != null && silence.isOn()) {
        judge(now);
      }
      if (socket == null && failure == null) {
        replace();
      }
      boolean broken = socket == null || !senderClosed && log.written() < log.packed();
      if (lanes != null && failure == null) {
        boolean gone = receiver != null && receiver.hasGoodbye();
        broken |= lanes.look(this, spare, awaitsAcks(), gone ? Duration.ZERO : watch.bound());
      }
      return broken && failure == null;
    } finally {
      leave();
    }
  }

  /** Does what no end may ask for. */
  private void glance(long now) {
    try {
      acknowledge(true);
      if (!senderClosed && log.written() < log.packed() && writeAck()) {
        log.write(socket);
      }
      boolean quiet = silence.isQuiet(now, moved);
      if (log.acked() < log.packed() || quiet && mayRead()) {
        readAcks();
      }
    } catch (IOException e) {
      broke(e);
    }
  }

  /** True if the end that reads what comes is there. */
  private boolean mayRead() {
    return receiver != null || !spare.receives();
  }

  /** Asks for a sign, gives one, or tries another socket. */
  private void judge(long now) {
    Reader end = receiver;
    if (senderClosed || end != null && end.hasGoodbye()) {
      silence.begin(now);
      return;
    }
    boolean blocked = !mayRead() || end != null && end.isBlocked();
    silence.hear(now, moved);
    try {
      if (spare.dials() && blocked) {
        silence.begin(now);
      } else if (silence.mayAsk(now)) {
        if (isBetweenFrames()) {
          say(ASK, 0, 0);
        }
        silence.ask(now);
      } else if (isBetweenFrames() && silence.owesSign(now, moved, blocked)) {
        putAck(ack.clear());
        ack.flip();
        writeAck();
        silence.sign(now, moved);
      }
      if (lanes != null && end != null && isBetweenFrames()) {
        reportLane(now);
      }
    } catch (IOException e) {
      broke(e);
      return;
    }
    MovedException reason =
        spare.reasonToMove(0, silence.isDoubtful(now), "nothing has come for ", watch.silence());
    if (reason != null) {
      broke(reason);
    }
  }

  private void reportLane(long now) throws IOException {
    int lane = lanes.stopped(now);
    if (lane >= 0) {
      say(STOPPED, lanes.reportTag(lane), lanes.reportNote(lane));
    }
  }

  /** True if an acknowledgement may follow what has been written. */
  @HotPath
  private boolean isBetweenFrames() {
    return !ack.hasRemaining() && log.isBetweenRecords() && !socket.owes();
  }

  private void say(int what, int tag, int note) throws IOException {
    putHeader(ack.clear(), 0, what, tag, note, NOTHING);
    ack.flip();
    writeAck();
  }

  private void replace() {
    Resumption.Resumed resumed;
    try {
      resumed = resumption.poll(this::position);
    } catch (NcclException e) {
      fail(cause, "; " + e.problem());
      return;
    }
    long nanos = System.nanoTime() - brokenSince;
    if (resumed != null) {
      failover(resumed, nanos);
    } else if (nanos > Patience.nanos(watch.bound())) {
      resumption.close();
      fail(cause, "; no other socket has taken over within " + Patience.text(watch.bound()));
    }
  }

  private Resumption.Position position() {
    Reader end = receiver;
    told = received;
    return end == null
        ? new Resumption.Position(0, -1, 0)
        : new Resumption.Position(end.position(), end.got(), received);
  }

  private void failover(Resumption.Resumed resumed, long nanos) {
    String before = self + " to " + peer;
    Sockets.close(sockets[0]);
    sockets[0] = resumed.socket();
    KeepAlive.set(sockets[0].socket(), watch.silence());
    try {
      Resumption.Position there = resumed.there();
      long again = log.resume(there.next(), there.got(), there.complete());
      ack.clear().limit(0);
      acks.clear();
      owed = ACK_BYTES;
      silence.begin(System.nanoTime());
      if (receiver != null) {
        receiver.forget();
      }
      name();
      socket = resumed.socket();
      count(socket, again);
      tell(before, self + " to " + peer, Sockets.reason(cause), again, nanos);
    } catch (IOException e) {
      fail(e, "");
    }
  }

  @Override
  public void replaced(int index, DataChannel by, String why, long again, long nanos) {
    Sockets.close(sockets[index]);
    sockets[index] = by;
    KeepAlive.set(by.socket(), watch.silence());
    count(by, again);
    String which = "%d of the connection %s to %s".formatted(index, self, peer);
    tell(which, addresses(by), why, again, nanos);
  }

  private static String addresses(DataChannel of) {
    try {
      return Sockets.text((InetSocketAddress) of.socket().getLocalAddress())
          + " to "
          + Sockets.text((InetSocketAddress) of.socket().getRemoteAddress());
    } catch (IOException e) {
      return "an address that is gone";
    }
  }

  private void count(DataChannel by, long again) {
    failovers = failovers.and(new Failovers(1, System.currentTimeMillis(), again, path(by)));
  }

  /** Returns the interface and the addresses of a socket, without ports. */
  private static String path(DataChannel of) {
    try {
      InetAddress here = ((InetSocketAddress) of.socket().getLocalAddress()).getAddress();
      InetAddress there = ((InetSocketAddress) of.socket().getRemoteAddress()).getAddress();
      NetworkInterface card = NetworkInterface.getByInetAddress(here);
      return "%s %s to %s"
          .formatted(
              card == null ? "?" : card.getName(), here.getHostAddress(), there.getHostAddress());
    } catch (IOException e) {
      return "";
    }
  }

  /** The sockets that others have replaced. Any thread. */
  Failovers failovers() {
    return failovers;
  }

  /** Logs that a socket has taken over. */
  private void tell(String before, String after, String why, long again, long nanos) {
    Failover.commit("Socket", before, after, why, again, nanos);
    LOG.log(
        Level.WARNING,
        "the socket {0} broke ({1}); the socket {2} has taken over after {3}, {4} bytes are sent"
            + " again",
        before,
        why,
        after,
        Patience.text(Duration.ofNanos(nanos)),
        Long.toString(again));
  }

  /** Replaces no socket any more; the sockets are closed by their source. */
  public void end() {
    watch.remove(this);
    boolean mine = enterSoon();
    over = true;
    resumption.close();
    if (lanes != null) {
      lanes.forget();
    }
    if (mine) {
      leave();
    }
  }
}
