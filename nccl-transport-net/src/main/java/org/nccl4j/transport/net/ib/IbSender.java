package org.nccl4j.transport.net.ib;

import java.time.Duration;
import java.util.function.IntFunction;
import org.nccl4j.api.spi.Failovers;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.api.spi.NetRequest;
import org.nccl4j.api.spi.NetSender;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.transport.net.failover.LinkWatch;
import org.nccl4j.transport.net.ib.control.ControlDialer;
import org.nccl4j.transport.net.ib.device.IbSettings;
import org.nccl4j.transport.net.ib.verbs.WorkRequests;

/**
 * The sending end. A message waits until the receiver has told, in {@link ClearToSend}, where its
 * tag goes; it is then written there at once. The last message of a group to be written ends the
 * receiver's request by an immediate.
 */
final class IbSender extends IbConnection implements NetSender {
  private static final int REQUESTS = 120;

  /** Most bytes of a message that goes over one port of a merged device: a second costs more. */
  private static final int WHOLE_BYTES = 16 << 10;

  /**
   * Data, sizes and an immediate for each request, what ends the groups of all slots again, and
   * tests. At most 512: an adapter rounds up to a power of two. A completion queue has room for
   * all, since those that a broken queue pair flushes complete, signaled or not.
   */
  private static final int SENDS = 3 * REQUESTS + 2 * ClearToSend.SLOTS + 8;

  /** Identifies a write that no request waits for. */
  private static final long NOBODY = -1;

  private final boolean split;

  /** Number of queue pairs of a round, over which a group goes. */
  private final int span;

  /** Number of rounds of queue pairs, which groups take in turn. */
  private final int rounds;

  /** Most bytes that an immediate ends with them, at ports of InfiniBand and of RoCE. */
  private final int mostOnInfiniBand;

  private final int mostOnEthernet;

  private final WorkRequests chain = new WorkRequests(3);
  private final Request[] requests = new Request[REQUESTS];
  private final long[] awaited = new long[ClearToSend.SLOTS];
  private final int[] taken = new int[ClearToSend.SLOTS];

  /** By slot: whether the only message of its last group went to its other memory. */
  private final boolean[] moved = new boolean[ClearToSend.SLOTS];

  private final Retransmissions sentAgain = new Retransmissions();
  private volatile SenderFailover move;
  private int nextRequest;
  private final IntFunction<ControlDialer> dialers;
  private final ControlDialer dialer;
  private boolean connected;

  /** True if a message cannot be sent for now. */
  private volatile boolean waits;

  /** Time at which the watch first saw that; 0 if it has not. */
  private long waitsSince;

  private long head = 1;

  /** A send under way. */
  private final class Request implements NetRequest {
    private final int index;
    private boolean used;
    private int remaining;
    private IbMemory from;
    private long offset;
    private int bytes;
    private int note;
    private long group;
    private int place;
    private boolean last;

    private Request(int index) {
      this.index = index;
    }

    @Override
    @HotPath
    public boolean test(int[] sizes) {
      if (!turn.enter()) {
        return false;
      }
      try {
        if (isUnderWay()) {
          sendAgain();
          progress();
        }
        used = isUnderWay();
        return !used;
      } finally {
        turn.leave();
      }
    }

    private boolean isUnderWay() {
      return used && remaining > 0;
    }
  }

  /**
   * Begins to connect.
   *
   * @param pairs number of queue pairs, a multiple of the width
   * @param width the greater number of ports of the two ends
   * @param dialers a dialer that begins with the address of a place, counted from 0; those of other
   *     places replace the first one's connection
   */
  IbSender(
      IbSettings settings,
      LocalPorts ports,
      int pairs,
      int width,
      int rank,
      LinkWatch watch,
      IntFunction<ControlDialer> dialers) {
    super(
        settings,
        ports,
        new NicQueues.Size(
            pairs, width, SENDS, 1, SENDS * (settings.split() ? pairs : width) + pairs),
        rank,
        watch);
    split = settings.split() && pairs > 1;
    span = split ? pairs : width;
    rounds = pairs / span;
    mostOnInfiniBand = settings.mostWithImmediate(/* ethernet= */ false);
    mostOnEthernet = settings.mostWithImmediate(/* ethernet= */ true);
    for (int i = 0; i < REQUESTS; i++) {
      requests[i] = new Request(i);
    }
    for (int slot = 0; slot < ClearToSend.SLOTS; slot++) {
      awaited[slot] = slot + 1;
    }
    this.dialers = dialers;
    this.dialer = redial(0);
  }

  @Override
  boolean isSplit() {
    return split;
  }

  @Override
  public boolean isConnected() {
    checkOpen();
    if (!connected && dialer.step()) {
      if (remote() == null) {
        connectPairs(dialer.link(), dialer.remote());
        dialer.sayReady();
      }
      connected = dialer.isReadySaid();
      if (connected) {
        begin();
      }
    }
    return connected;
  }

  /** Returns the sender's state, for messages. */
  @Override
  public String toString() {
    return connected ? "connected with " + remote().describe() : dialer.toString();
  }

  @Override
  @HotPath
  public NetRequest isend(NetMemory memory, long offset, int bytes, int tag) {
    return isend(memory, offset, bytes, tag, 0);
  }

  @Override
  @HotPath
  public NetRequest isend(NetMemory memory, long offset, int bytes, int tag, int note) {
    return isend(memory, offset, bytes, tag, note, /* placed= */ false);
  }

  @Override
  @HotPath
  public NetRequest isendPlaced(NetMemory memory, long offset, int bytes, int tag, int note) {
    return isend(memory, offset, bytes, tag, note, /* placed= */ true);
  }

  private NetRequest isend(
      NetMemory memory, long offset, int bytes, int tag, int note, boolean placed) {
    checkOpen();
    IbMemory from = checked(memory, offset, bytes);
    if (!turn.enter()) {
      return null;
    }
    try {
      Request request = queues == null ? null : begin(from, offset, bytes, tag, note, placed);
      if (request == null) {
        beginToWait();
        progress();
      } else if (waits) {
        waits = false;
        waitsSince = 0;
      }
      return request;
    } finally {
      turn.leave();
    }
  }

  private void beginToWait() {
    if (!waits) {
      waits = true;
      endRest();
    }
  }

  /** {@inheritDoc} A sender that waits for announcements may have to dial again. */
  @Override
  public boolean isUnderWay() {
    return waits;
  }

  @Override
  boolean isIdle() {
    return !waits && endsInOrder();
  }

  private Request begin(IbMemory from, long offset, int bytes, int tag, int note, boolean placed) {
    sendAgain();
    Request request = free();
    if (request == null || queues == null) {
      return null;
    }
    for (long group = head; group < head + ClearToSend.SLOTS; group++) {
      int slot = slot(group);
      if (awaited[slot] != group) {
        continue;
      }
      if (sentAgain.isDue(slot) || !hasArrived(slot, group)) {
        return null;
      }
      int place = place(slot, tag);
      if (place >= 0 && placed && isPlaceToCome(slot, group)) {
        return null;
      }
      if (place >= 0) {
        request.from = from;
        request.offset = offset;
        request.bytes = bytes;
        request.note = note;
        request.group = group;
        request.place = place;
        send(request, slot);
        return request;
      }
    }
    return null;
  }

  /** True if the receiver is going to tell where the only message of a group goes. */
  private boolean isPlaceToCome(int slot, long group) {
    return table.isFollowed(slot)
        && table.count(slot) == 1
        && !table.arrivedAcquire(slot, ClearToSend.OTHER, group);
  }

  private static int slot(long group) {
    return (int) ((group - 1) % ClearToSend.SLOTS);
  }

  private Request free() {
    for (int i = 0; i < REQUESTS; i++) {
      Request request = requests[(nextRequest + i) % REQUESTS];
      if (!request.used) {
        nextRequest = (request.index + 1) % REQUESTS;
        return request;
      }
    }
    return null;
  }

  private boolean hasArrived(int slot, long group) {
    if (!table.arrivedAcquire(slot, 0, group)) {
      return false;
    }
    int count = table.count(slot);
    if (count < 1 || count > ClearToSend.MAX_RECEIVES) {
      throw new InternalErrorException(
          "%s announces a group of %d receives".formatted(remote().describe(), count),
          "run the same version of nccl4j on all ranks");
    }
    for (int i = 1; i < count; i++) {
      if (!table.arrivedAcquire(slot, i, group)) {
        return false;
      }
    }
    return true;
  }

  private int place(int slot, int tag) {
    int count = table.count(slot);
    for (int i = 0; i < count; i++) {
      if (table.tag(slot, i) == tag && (taken[slot] & 1 << i) == 0) {
        return i;
      }
    }
    return -1;
  }

  private void send(Request request, int slot) {
    int place = request.place;
    if (request.bytes > table.capacity(slot, place)) {
      throw new InvalidUsageException(
          ErrorId.CALLS_DIFFER,
          "a message of %d bytes with tag %d is sent to a receive of %d bytes at %s"
              .formatted(
                  request.bytes,
                  table.tag(slot, place),
                  table.capacity(slot, place),
                  remote().describe()),
          "receive at least as many bytes as are sent");
    }
    int count = table.count(slot);
    taken[slot] |= 1 << place;
    table.putSize(slot, place, request.bytes);
    if (count == 1) {
      table.putNote(slot, request.note);
    }
    request.last = taken[slot] == (1 << count) - 1;
    request.used = true;
    if (request.last) {
      finish(slot);
    }
    write(request, slot);
  }

  /** Writes a message to its place. An error on the way leaves it under way, to be sent again. */
  private void write(Request request, int slot) {
    int bytes = request.bytes;
    moved[slot] = isMoved(slot, request);
    if (isWhole(slot)) {
      request.remaining = bytes > 0 || request.last ? 1 : 0;
      if (request.remaining > 0) {
        writePiece(request, slot, wholePair(request.group), 0, bytes, true);
      }
      return;
    }
    int first = firstPair(request.group);
    NicQueues at = queues;
    request.remaining = request.last ? span : pieces(at, bytes);
    int begin = 0;
    for (int i = 0; i < span && queues != null; i++) {
      int end = at.end(bytes, i, span);
      if (end > begin || request.last) {
        writePiece(request, slot, first + i, begin, end - begin, i == 0);
      }
      begin = end;
    }
  }

  /** True if the receiver has told other memory for a message that is alone in its group. */
  private boolean isMoved(int slot, Request request) {
    return table.count(slot) == 1
        && table.arrivedAcquire(slot, ClearToSend.OTHER, request.group)
        && table.capacity(slot, ClearToSend.OTHER) == request.bytes;
  }

  /** True if a slot's group goes over one queue pair. */
  private boolean isWhole(int slot) {
    return span == 1 || !split && table.count(slot) == 1 && table.size(slot, 0) <= WHOLE_BYTES;
  }

  /** The first queue pair of the round that a group goes over. */
  private int firstPair(long group) {
    return (int) ((group - 1) % rounds) * span;
  }

  /** The queue pair of a group that goes over one. */
  private int wholePair(long group) {
    int first = firstPair(group);
    return span == 1 ? first : first + queues.fast((group - 1) / rounds);
  }

  /** The number of queue pairs that have bytes of a message to write. */
  private int pieces(NicQueues at, int bytes) {
    int pieces = 0;
    int begin = 0;
    for (int i = 0; i < span; i++) {
      int end = at.end(bytes, i, span);
      pieces += end > begin ? 1 : 0;
      begin = end;
    }
    return pieces;
  }

  private void writePiece(
      Request request, int slot, int pair, int begin, int length, boolean withSizes) {
    long local = request.from.memory().address() + request.offset + begin;
    int place = moved[slot] ? ClearToSend.OTHER : request.place;
    long there = table.remoteAddress(slot, place) + begin;
    int localKey = request.from.localKey(queues.port(pair));
    int key = table.remoteKey(slot, place, queues.remotePort(pair));
    chain.begin();
    if (request.last && length > mostWithImmediate(pair)) {
      chain.write(local, length, localKey, there, key, NOBODY, false);
      int immediate = immediate(slot, pair, withSizes);
      chain.writeImmediate(0, 0, 0, there, key, request.index, immediate);
    } else if (request.last) {
      int immediate = immediate(slot, pair, withSizes);
      chain.writeImmediate(local, length, localKey, there, key, request.index, immediate);
    } else {
      chain.write(local, length, localKey, there, key, request.index, true);
    }
    post(pair, chain);
  }

  private int mostWithImmediate(int pair) {
    return queues.isEthernet(pair) ? mostOnEthernet : mostOnInfiniBand;
  }

  /** The immediate that ends a slot's group, behind its sizes if it does not hold them. */
  private int immediate(int slot, int pair, boolean withSizes) {
    boolean whole = isWhole(slot);
    int bytes = table.size(slot, 0);
    int note = table.note(slot);
    if (table.count(slot) == 1 && Immediate.holds(bytes, note, whole, moved[slot])) {
      return Immediate.of(slot, bytes, note, whole, moved[slot]);
    }
    if (withSizes) {
      if (table.count(slot) == 1) {
        table.putMoved(slot, moved[slot]);
      }
      int at = ClearToSend.sizesOffset(slot);
      chain.write(
          table.address() + at,
          ClearToSend.SIZES_SLOT_BYTES,
          queues.tableKey(pair),
          queues.remote().memory() + at,
          queues.remoteTableKey(pair),
          NOBODY,
          false);
    }
    return Immediate.ofSlot(slot, whole);
  }

  /** The slot's group is sent: its next one is the group after a whole round. */
  private void finish(int slot) {
    taken[slot] = 0;
    awaited[slot] += ClearToSend.SLOTS;
    while (awaited[slot(head)] != head) {
      head++;
    }
  }

  @Override
  void completed(int opcode, long id, int immediate) {
    if (id != NOBODY) {
      progressed();
      requests[(int) id].remaining--;
    }
  }

  // --- Failover ---

  @Override
  QpFailover newMove(Duration bound) {
    move = new SenderFailover(this, bound);
    return move;
  }

  @Override
  public Failovers failovers() {
    SenderFailover moves = move;
    return moves == null ? Failovers.NONE : moves.failovers();
  }

  /** Begins to dial a control connection, at first to the address of a place. */
  ControlDialer redial(int place) {
    ControlDialer begun = dialers.apply(place);
    begun.introduce(describe());
    return begun;
  }

  /** Sends nothing over a queue pair, which completes once the other end has seen it. */
  void postTest(NicQueues at, int pair) {
    long there = at.remote().memory();
    at.pairs[pair].post(chain.begin().write(0, 0, 0, there, at.remoteTableKey(pair), NOBODY, true));
  }

  @Override
  void stopped() {
    table.forget();
  }

  /**
   * Goes on over other queue pairs.
   *
   * @param next the receiver's next group
   * @param waiting a bit for each slot whose last group it does not have whole
   * @return the bytes that are sent again
   */
  long resume(long next, long waiting) {
    sentAgain.begin();
    for (int slot = 0; slot < ClearToSend.SLOTS; slot++) {
      long latest = ClearToSend.latest(slot, next);
      boolean sent = latest == awaited[slot] - ClearToSend.SLOTS;
      boolean begun = latest == awaited[slot] && taken[slot] != 0;
      if ((waiting >>> slot & 1) != 0 && (sent || begun)) {
        sentAgain.add(slot, latest);
      }
    }
    long bytes = 0;
    for (Request request : requests) {
      if (request.isUnderWay()) {
        if (sentAgain.isGroup(slot(request.group), request.group)) {
          bytes += request.bytes;
        } else {
          request.remaining = 0; // the receiver has it
        }
      }
    }
    return bytes;
  }

  /** Returns the time since which nothing can be sent, as the watch has seen it; 0 for none. */
  long waitsSince() {
    if (waits && waitsSince == 0) {
      waitsSince = System.nanoTime();
    }
    return waitsSince;
  }

  @Override
  boolean goOn() {
    sendAgain();
    return sentAgain.first() >= 0;
  }

  /** Sends the groups again that the receiver has announced again. */
  private void sendAgain() {
    for (int slot = sentAgain.first(); slot >= 0 && queues != null; slot = sentAgain.next(slot)) {
      if (hasArrived(slot, sentAgain.group(slot))) {
        sendAgain(slot, sentAgain.take(slot));
      }
    }
  }

  private void sendAgain(int slot, long group) {
    Request last = null;
    for (Request request : requests) {
      if (request.isUnderWay() && request.group == group && queues != null) {
        if (request.last) {
          last = request;
        } else {
          write(request, slot);
        }
      }
    }
    if (last != null && queues != null) {
      write(last, slot);
    } else if (last == null && awaited[slot] != group) {
      endAgain(slot, group);
    }
  }

  /** Ends a group whose data have arrived, but not their end. */
  private void endAgain(int slot, long group) {
    if (queues == null) {
      return;
    }
    boolean whole = isWhole(slot);
    int first = whole ? wholePair(group) : firstPair(group);
    for (int i = 0; i < (whole ? 1 : span) && queues != null; i++) {
      int pair = first + i;
      chain.begin();
      int immediate = immediate(slot, pair, i == 0);
      long there = table.remoteAddress(slot, 0);
      int key = table.remoteKey(slot, 0, queues.remotePort(pair));
      chain.writeImmediate(0, 0, 0, there, key, NOBODY, immediate);
      post(pair, chain);
    }
  }

  @Override
  int largestUnderWay() {
    int largest = 0;
    for (Request request : requests) {
      if (request.used && request.remaining > 0) {
        largest = Math.max(largest, request.bytes);
      }
    }
    return largest;
  }

  @Override
  boolean endsInOrder() {
    for (Request request : requests) {
      if (request.used && request.remaining > 0) {
        return false;
      }
    }
    return true;
  }

  @Override
  void closeOwn() {
    if (dialer != null) {
      dialer.close();
    }
  }
}
