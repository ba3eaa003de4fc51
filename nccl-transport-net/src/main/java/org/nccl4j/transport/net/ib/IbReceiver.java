package org.nccl4j.transport.net.ib;

import static org.nccl4j.transport.net.ib.verbs.VerbsLayout.*;

import java.time.Duration;
import java.util.Arrays;
import java.util.function.Supplier;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.api.spi.NetReceiver;
import org.nccl4j.api.spi.NetRequest;
import org.nccl4j.device.Device;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.RemoteException;
import org.nccl4j.transport.net.failover.LinkWatch;
import org.nccl4j.transport.net.ib.control.ControlConnection;
import org.nccl4j.transport.net.ib.device.IbSettings;
import org.nccl4j.transport.net.ib.verbs.WorkRequests;

/**
 * The receiving end. Each group of receives takes a slot of {@link ClearToSend}, posts what the
 * sender's immediate will end, and writes the slot into the sender's memory.
 */
final class IbReceiver extends IbConnection implements NetReceiver {
  private static final int ANNOUNCEMENTS_BETWEEN_SIGNALS = 16;
  private static final long ANNOUNCEMENT = -1;

  /** Number of queue pairs of a round, over which a group goes. */
  private final int span;

  /** Number of rounds of queue pairs, which groups take in turn. */
  private final int rounds;

  /** Receives on each queue pair that no message has taken. */
  private final int[] posted;

  /** Groups of each round that have not come whole. */
  private final int[] waiting;

  private final boolean split;
  private final Supplier<ControlConnection> redialled;
  private final Runnable forget;
  private final WorkRequests chain = new WorkRequests(1);
  private final Request[] requests = new Request[ClearToSend.SLOTS];
  private long next = 1;
  private Flushes flush;

  /** A group of receives under way. */
  private final class Request implements NetRequest {
    private final int slot;
    private final IbMemory[] into = new IbMemory[ClearToSend.MAX_RECEIVES];
    private final int[] received = new int[ClearToSend.MAX_RECEIVES];
    private boolean used;
    private long group;
    private int count;
    private int remaining;
    private int note;

    private Request(int slot) {
      this.slot = slot;
    }

    @Override
    @HotPath
    public boolean test(int[] sizes) {
      if (!turn.enter()) {
        return false;
      }
      try {
        if (remaining > 0) {
          progress();
        }
        if (remaining > 0) {
          return false;
        }
        used = false;
        if (sizes != null) {
          System.arraycopy(received, 0, sizes, 0, count);
        }
        return true;
      } finally {
        turn.leave();
      }
    }

    @Override
    @HotPath
    public int note() {
      return note;
    }

    private boolean isWaiting() {
      return used && remaining > 0;
    }

    private void ended(int immediate) {
      if (Immediate.hasSize(immediate)) {
        received[0] = Immediate.size(immediate);
        note = Immediate.note(immediate);
      }
      remaining = Immediate.isWhole(immediate) ? 0 : remaining - 1;
      if (remaining > 0) {
        return;
      }
      waiting[round(group)]--;
      if (!Immediate.hasSize(immediate)) {
        for (int i = 0; i < count; i++) {
          received[i] = table.size(slot, i);
        }
        note = count == 1 ? table.note(slot) : 0;
      }
    }
  }

  /**
   * An end without a connection.
   *
   * @param pairs number of queue pairs, a multiple of the width
   * @param width the greater number of ports of the two ends
   * @param redialled takes a control connection that the sender has dialled in place of the first
   * @param forget has the sender's dialling refused
   */
  IbReceiver(
      IbSettings settings,
      LocalPorts ports,
      int pairs,
      int width,
      boolean split,
      int rank,
      LinkWatch watch,
      Supplier<ControlConnection> redialled,
      Runnable forget) {
    super(
        settings,
        ports,
        new NicQueues.Size(
            pairs,
            width,
            2 * ClearToSend.SLOTS,
            ClearToSend.SLOTS,
            ClearToSend.SLOTS * (split ? pairs : width) + 2 * ClearToSend.SLOTS),
        rank,
        watch);
    this.split = split;
    span = split ? pairs : width;
    rounds = pairs / span;
    posted = new int[pairs];
    waiting = new int[rounds];
    this.redialled = redialled;
    this.forget = forget;
    for (int slot = 0; slot < ClearToSend.SLOTS; slot++) {
      requests[slot] = new Request(slot);
    }
  }

  @Override
  boolean isSplit() {
    return split;
  }

  @Override
  @HotPath
  public NetRequest irecv(int n, NetMemory[] memories, long[] offsets, int[] bytes, int[] tags) {
    checkOpen();
    if (n < 1 || n > ClearToSend.MAX_RECEIVES) {
      throw new InvalidArgumentException(
          ErrorId.COUNT,
          "a group of %d receives".formatted(n),
          "receive 1 to 8 messages in a group");
    }
    if (!turn.enter()) {
      return null;
    }
    try {
      Request request = requests[(int) ((next - 1) % ClearToSend.SLOTS)];
      if (request.used || queues == null) {
        progress();
        return null;
      }
      begin(request, n, memories, offsets, bytes, tags);
      return request;
    } finally {
      turn.leave();
    }
  }

  private void begin(
      Request request, int n, NetMemory[] memories, long[] offsets, int[] bytes, int[] tags) {
    for (int i = 0; i < n; i++) {
      IbMemory to = checked(memories[i], offsets[i], bytes[i]);
      long address = to.memory().address() + offsets[i];
      table.put(request.slot, i, n, next, address, bytes[i], tags[i]);
      request.into[i] = to;
    }
    request.used = true;
    request.count = n;
    request.group = next;
    waiting[round(next)]++;
    announce(request, next++);
  }

  /**
   * Posts what the sender will end, and writes a slot to the sender, always through the first queue
   * pair: slots arrive in order.
   */
  private void announce(Request request, long group) {
    request.remaining = span;
    putKeys(request);
    int round = round(group);
    for (int pair = round * span; pair < (round + 1) * span; pair++) {
      // A short message has left the receives of other ports over.
      while (queues != null && posted[pair] < waiting[round]) {
        posted[pair]++;
        postReceive(pair);
      }
    }
    if (queues == null) {
      return;
    }
    int at = ClearToSend.slotOffset(request.slot);
    chain
        .begin()
        .write(
            table.address() + at,
            request.count * ClearToSend.ENTRY_BYTES,
            queues.tableKey(0),
            queues.remote().memory() + at,
            queues.remoteTableKey(0),
            ANNOUNCEMENT,
            group % ANNOUNCEMENTS_BETWEEN_SIGNALS == 0);
    post(0, chain);
  }

  private int round(long group) {
    return (int) ((group - 1) % rounds);
  }

  private void putKeys(Request request) {
    for (int i = 0; i < request.count; i++) {
      for (int port = 0; port < queues.ports.length; port++) {
        table.putKey(request.slot, i, port, request.into[i].remoteKey(port));
      }
    }
  }

  @Override
  @HotPath
  public NetRequest iflush(int n, NetMemory[] memories, long[] offsets, int[] bytes) {
    checkOpen();
    for (int i = n - 1; i >= 0; i--) {
      IbMemory received = checked(memories[i], offsets[i], bytes[i]);
      if (bytes[i] > 0 && received.memory().device().kind() == Device.Kind.CUDA) {
        return flush(received, offsets[i]);
      }
    }
    return null;
  }

  /** Flushes what was written up to a byte of some memory. */
  @HotPath
  NetRequest flush(IbMemory received, long offset) {
    takeTurn();
    try {
      if (flush == null) {
        beginFlushes();
      }
      return flush.begin(received, offset);
    } finally {
      turn.leave();
    }
  }

  private void beginFlushes() {
    flush = new Flushes(this);
  }

  @Override
  void completed(int opcode, long id, int immediate) {
    if (opcode == WC_RECV_RDMA_WITH_IMM) {
      posted[(int) id]--;
      int slot = Immediate.slot(immediate);
      if (!requests[slot].used || requests[slot].remaining == 0) {
        throw new RemoteException(
            ErrorId.PROTOCOL,
            "%s ended a receive that is not under way".formatted(remote().describe()),
            "run the same version of nccl4j on all ranks");
      }
      progressed();
      requests[slot].ended(immediate);
    } else if (opcode == WC_RDMA_READ) {
      flush.completed((int) id);
    }
  }

  // --- Fail-over ---

  @Override
  Move newMove(Duration bound) {
    return new ReceiverMove(this, bound, redialled);
  }

  @Override
  void stopped() {
    Arrays.fill(posted, 0);
    if (flush != null) {
      flush.stop();
    }
  }

  @Override
  boolean goOn() {
    return false;
  }

  /** Returns the number of the next group. */
  long next() {
    return next;
  }

  /** Returns a bit for each slot whose last group has not come whole. */
  long waiting() {
    long waiting = 0;
    for (Request request : requests) {
      waiting |= request.isWaiting() ? 1L << request.slot : 0;
    }
    return waiting;
  }

  /** Goes on over other queue pairs: announces again, with the keys of their device. */
  void resume() {
    for (long group = Math.max(1, next - ClearToSend.SLOTS); group < next; group++) {
      Request request = requests[(int) ((group - 1) % ClearToSend.SLOTS)];
      if (request.isWaiting() && queues != null) {
        announce(request, group);
      }
    }
    if (flush != null) {
      flush.resume();
    }
  }

  @Override
  int largestUnderWay() {
    return 0;
  }

  /** False: it is cut, so that a sender learns at once that nobody receives. */
  @Override
  boolean endsInOrder() {
    return false;
  }

  @Override
  void closeOwn() {
    forget.run();
    if (flush != null) {
      flush.close();
    }
  }
}
