package org.nccl4j.api.bootstrap;

import java.net.ProtocolException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;

/**
 * What a rank tells all others beside the exchanges: small, now and then, and lost once a root is
 * gone. It goes to a root, and from it to all who came there; who came to two roots passes it on,
 * so each has a number by which a rank knows what it has heard. Any thread.
 */
final class Notices {
  static final int MAX_BYTES = 16 << 10;

  private final int rank;
  private final List<ControlLink> roots = new ArrayList<>();

  /** By rank, the number of its last; guarded by itself. */
  private final Map<Integer, Long> heard = new HashMap<>();

  private long told;
  private volatile Consumer<byte[]> listener = notice -> {};

  Notices(int rank) {
    this.rank = rank;
  }

  /** Before anything is connected. */
  void add(ControlLink root) {
    roots.add(root);
  }

  void listen(Consumer<byte[]> newListener) {
    listener = newListener;
  }

  /** Tells all others. */
  synchronized void tell(byte[] notice) {
    pass(rank, ++told, notice, null);
  }

  /** Another rank's, or this one's that has come around. */
  void heard(MessageReader body, ControlLink source) throws ProtocolException {
    int origin = body.number();
    long number = body.longNumber();
    byte[] notice = body.bytes(MAX_BYTES);
    synchronized (heard) {
      if (origin == rank || heard.getOrDefault(origin, 0L) >= number) {
        return;
      }
      heard.put(origin, number);
    }
    listener.accept(notice);
    pass(origin, number, notice, source);
  }

  private void pass(int origin, long number, byte[] notice, ControlLink source) {
    for (ControlLink root : roots) {
      if (root != source && root.alive()) {
        ByteBuffer message =
            new MessageWriter(FrameType.NOTICE).number(origin).number(number).bytes(notice).done();
        root.send(message);
      }
    }
  }
}
