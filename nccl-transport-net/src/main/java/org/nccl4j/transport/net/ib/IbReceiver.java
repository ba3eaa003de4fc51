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
 * sender's immediate will end, and writes the slot into the sender's memory. A receive is moved to
 * other memory by a second entry. The sender decides which of the two a message goes to, and tells
 * it with the immediate.
 */
final class IbReceiver extends IbConnection implements NetReceiver {
  private static final int ANNOUNCEMENTS_BETWEEN_SIGNALS = 16;
  private static final long ANNOUNCEMENT = -1;

  /** Identifies, less the slot, the announcement of other memory. */
  private static final long OTHER_MEMORY = -2;

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
  private final WorkRequests chain = new WorkRequests(2);
  private final Request[] requests = new Request[ClearToSend.SLOTS];
  private long next = 1;

  /** The other memory of the message that the next call receives; null for none. */
  private IbMemory nextOther;

  private long nextOtherAddress;
  private int nextOtherBytes;
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

    /** The other memory for its only message; null for none. */
    private IbMemory other;

    /** True if its message is there. */
    private boolean moved;

    /** True while the entry of other memory is being written, so that the image must not change. */
    private boolean telling;

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
    public boolean redirect(NetMemory memory, long offset, int bytes) {
      IbMemory to = checked(memory, offset, bytes);
      if (!turn.enter()) {
        return false;
      }
      try {
        boolean may = isWaiting() && count == 1 && other == null && !telling && queues != null;
        if (may) {
          setOther(to, to.memory().address() + offset, bytes);
          chain.begin();
          addOther(this);
          post(0, chain);
        }
        return may;
      } finally {
        turn.leave();
      }
    }

    @Override
    @HotPath
    public boolean isRedirected() {
      return moved;
    }

    @Override
    @HotPath
    public int note() {
      return note;
    }

    /** {@inheritDoc} By an entry that fits no message. */
    @Override
    @HotPath
    public boolean stay() {
      if (!turn.enter()) {
        return false;
      }
      try {
        if (!isWaiting() || count != 1 || other != null) {
          return true;
        }
        if (telling || queues == null) {
          return false;
        }
        setOther(into[0], into[0].memory().address(), ClearToSend.NOWHERE);
        chain.begin();
        addOther(this);
        post(0, chain);
        return true;
      } finally {
        turn.leave();
      }
    }

    private void setOther(IbMemory to, long address, int bytes) {
      other = to;
      table.put(slot, ClearToSend.OTHER, 1, group, address, bytes, 0);
    }

    private boolean isWaiting() {
      return used && remaining > 0;
    }

    private void ended(int immediate) {
      if (Immediate.hasSize(immediate)) {
        received[0] = Immediate.size(immediate);
        note = Immediate.note(immediate);
        moved = Immediate.isMoved(immediate);
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
        moved = count == 1 && table.isMoved(slot);
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
            3 * ClearToSend.SLOTS,
            ClearToSend.SLOTS,
            ClearToSend.SLOTS * (split ? pairs : width) + 3 * ClearToSend.SLOTS),
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
  public boolean redirects() {
    return true;
  }

  @Override
  public void tellPlaces() {
    table.putFollowed();
  }

  @Override
  @HotPath
  public boolean redirectNext(NetMemory memory, long offset, int bytes) {
    nextOther = checked(memory, offset, bytes);
    nextOtherAddress = nextOther.memory().address() + offset;
    nextOtherBytes = bytes;
    return true;
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
    IbMemory other = nextOther;
    nextOther = null;
    if (!turn.enter()) {
      return null;
    }
    try {
      Request request = requests[(int) ((next - 1) % ClearToSend.SLOTS)];
      if (request.used || request.telling || queues == null) {
        progress();
        return null;
      }
      begin(request, n, memories, offsets, bytes, tags);
      if (other != null && n == 1) {
        request.setOther(other, nextOtherAddress, nextOtherBytes);
      }
      announce(request, next++);
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
    request.other = null;
    request.moved = false;
    request.count = n;
    request.group = next;
    waiting[round(next)]++;
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
    chain.begin();
    if (request.other != null) {
      addOther(request);
    }
    chain.write(
        table.address() + at,
        request.count * ClearToSend.ENTRY_BYTES,
        queues.tableKey(0),
        queues.remote().memory() + at,
        queues.remoteTableKey(0),
        ANNOUNCEMENT,
        group % ANNOUNCEMENTS_BETWEEN_SIGNALS == 0);
    post(0, chain);
  }

  /**
   * Adds the write of the entry of other memory. In front of that of the entry of the receive, it
   * is there when that is.
   */
  private void addOther(Request request) {
    for (int port = 0; port < queues.ports.length; port++) {
      table.putKey(request.slot, ClearToSend.OTHER, port, request.other.remoteKey(port));
    }
    request.telling = true;
    int at = ClearToSend.slotOffset(request.slot) + ClearToSend.OTHER * ClearToSend.ENTRY_BYTES;
    chain.write(
        table.address() + at,
        ClearToSend.ENTRY_BYTES,
        queues.tableKey(0),
        queues.remote().memory() + at,
        queues.remoteTableKey(0),
        OTHER_MEMORY - request.slot,
        true);
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
    } else if (id <= OTHER_MEMORY) {
      requests[(int) (OTHER_MEMORY - id)].telling = false;
    }
  }

  // --- Failover ---

  @Override
  QpFailover newMove(Duration bound) {
    return new ReceiverFailover(this, bound, redialled);
  }

  @Override
  void stopped() {
    Arrays.fill(posted, 0);
    for (Request request : requests) {
      request.telling = false;
    }
    if (flush != null) {
      flush.stop();
    }
  }

  @Override
  boolean goOn() {
    return false;
  }

  /** {@inheritDoc} What it waits for comes without the watch. */
  @Override
  boolean isIdle() {
    return true;
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
