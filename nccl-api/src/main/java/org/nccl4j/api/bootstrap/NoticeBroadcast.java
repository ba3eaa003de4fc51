package org.nccl4j.api.bootstrap;

import java.net.ProtocolException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import org.nccl4j.api.bootstrap.connection.FrameType;
import org.nccl4j.api.bootstrap.connection.MessageReader;
import org.nccl4j.api.bootstrap.connection.MessageWriter;

/**
 * Broadcasts small notices of one rank to all others, besides the exchanges. A notice goes to a
 * root, which forwards it to all its ranks, several in one message if they arrive at once; a rank
 * of two roots forwards it to the other root. Once a root has ended, or may end, the notice also
 * goes around the ring as far as that is connected. Each notice has a number by which a rank
 * recognizes those that it has received. Any thread.
 */
public final class NoticeBroadcast {
  static final int MAX_BYTES = 16 << 10;

  private final int rank;
  private final List<RootConnection> roots = new ArrayList<>();

  /** Number of notices kept for a listener that has not come yet. */
  private static final int MOST_EARLY = 1024;

  /** The notices heard of each rank; guarded by itself. */
  private final Map<Integer, HeardNumbers> heard = new HashMap<>();

  /** Heard before there was a listener; guarded by this. */
  private final List<byte[]> early = new ArrayList<>();

  private long told;
  private RingConnection ring;

  /** Null at first; guarded by this. */
  private Consumer<byte[]> listener;

  NoticeBroadcast(int rank) {
    this.rank = rank;
  }

  /** Before anything is connected. */
  void add(RootConnection root) {
    roots.add(root);
  }

  /** Before anything is connected. */
  void set(RingConnection neighbours) {
    ring = neighbours;
  }

  /** Sets the listener, and sends it the earlier notices at once. */
  synchronized void listen(Consumer<byte[]> newListener) {
    listener = newListener;
    early.forEach(newListener);
    early.clear();
  }

  private synchronized void deliver(byte[] notice) {
    if (listener != null) {
      listener.accept(notice);
    } else if (early.size() < MOST_EARLY) {
      early.add(notice);
    }
  }

  /** Tells all others. */
  void tell(byte[] notice) {
    long number;
    synchronized (this) {
      number = ++told;
    }
    pass(rank, number, notice, null);
  }

  /**
   * Other ranks', or this one's that have come around.
   *
   * @param source the link or connection that they came by
   */
  void heard(MessageReader body, Object source) throws ProtocolException {
    do {
      heardOne(body, source);
    } while (body.hasMore());
  }

  private void heardOne(MessageReader body, Object source) throws ProtocolException {
    int origin = body.number();
    long number = body.longNumber();
    byte[] notice = body.bytes(MAX_BYTES);
    synchronized (heard) {
      if (origin == rank
          || !heard.computeIfAbsent(origin, any -> new HeardNumbers()).isFirst(number)) {
        return;
      }
    }
    deliver(notice);
    pass(origin, number, notice, source);
  }

  private void pass(int origin, long number, byte[] notice, Object source) {
    ByteBuffer message =
        new MessageWriter(FrameType.NOTICE).number(origin).number(number).bytes(notice).done();
    for (RootConnection root : roots) {
      if (root != source && root.alive()) {
        root.send(message.duplicate());
      }
    }
    if (!roots.stream().allMatch(RootConnection::stays)) {
      ring.send(message, source);
    }
  }
}
