package org.nccl4j.transport.net.ib;

import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.api.spi.NetRequest;
import org.nccl4j.api.spi.NetSender;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.transport.net.ib.device.IbSettings;
import org.nccl4j.transport.net.ib.device.RegistrationCache;
import org.nccl4j.transport.net.ib.verbs.WorkRequests;

/**
 * The sending end. A message waits until the receiver has told, in {@link ClearToSend}, where its
 * tag goes; it is then written there at once. The last message of a group to be written ends the
 * receiver's request by an immediate.
 */
final class IbSender extends IbConnection implements NetSender {
  private static final int REQUESTS = 128;
  private static final int SPLIT_UNIT = 128;

  private final boolean split;
  private final ClearToSend clear = new ClearToSend();
  private final RegistrationCache.Region clearRegion;
  private final WorkRequests chain = new WorkRequests(2);
  private final Request[] requests = new Request[REQUESTS];
  private final long[] awaited = new long[ClearToSend.SLOTS];
  private final int[] taken = new int[ClearToSend.SLOTS];
  private int nextRequest;
  private final ControlDialer dialer;
  private boolean connected;
  private long head = 1;

  /** A send under way. */
  private final class Request implements NetRequest {
    private final int index;
    private boolean used;
    private int remaining;
    private int bytes;
    private int note;

    private Request(int index) {
      this.index = index;
    }

    @Override
    @HotPath
    public boolean test(int[] sizes) {
      if (remaining > 0) {
        progress();
      }
      if (remaining == 0) {
        used = false;
      }
      return remaining == 0;
    }
  }

  /** Begins to connect; the dialer is then this connection's. */
  IbSender(IbSettings settings, LocalQpInfo local, int pairs, int rank, ControlDialer dialer) {
    super(
        settings,
        local,
        pairs,
        2 * REQUESTS + 8,
        1,
        settings.split() ? REQUESTS * pairs + 8 : REQUESTS + 8);
    split = settings.split() && pairs > 1;
    for (int i = 0; i < REQUESTS; i++) {
      requests[i] = new Request(i);
    }
    for (int slot = 0; slot < ClearToSend.SLOTS; slot++) {
      awaited[slot] = slot + 1;
    }
    RegistrationCache.Region region = null;
    try {
      region = device.cache().register(clear.address(), ClearToSend.BYTES);
    } finally {
      if (region == null) {
        close();
      }
    }
    clearRegion = region;
    this.dialer = dialer;
    dialer.introduce(describe(rank, split, clear.address(), region.remoteKey()));
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
    checkOpen();
    IbMemory from = checked(memory, offset, bytes);
    Request request = free();
    if (request == null) {
      progress();
      return null;
    }
    for (long group = head; group < head + ClearToSend.SLOTS; group++) {
      int slot = slot(group);
      if (awaited[slot] != group) {
        continue;
      }
      if (!hasArrived(slot, group)) {
        break;
      }
      int place = place(slot, tag);
      if (place >= 0) {
        request.note = note;
        send(request, from, offset, bytes, group, slot, place);
        return request;
      }
    }
    progress();
    return null;
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
    if (!clear.arrivedAcquire(slot, 0, group)) {
      return false;
    }
    int count = clear.count(slot);
    if (count < 1 || count > ClearToSend.MAX_RECEIVES) {
      throw new InternalErrorException(
          "%s announces a group of %d receives".formatted(remote().describe(), count),
          "run the same version of nccl4j on all ranks");
    }
    for (int i = 1; i < count; i++) {
      if (!clear.arrivedAcquire(slot, i, group)) {
        return false;
      }
    }
    return true;
  }

  private int place(int slot, int tag) {
    int count = clear.count(slot);
    for (int i = 0; i < count; i++) {
      if (clear.tag(slot, i) == tag && (taken[slot] & 1 << i) == 0) {
        return i;
      }
    }
    return -1;
  }

  private void send(
      Request request, IbMemory from, long offset, int bytes, long group, int slot, int place) {
    if (bytes > clear.capacity(slot, place)) {
      throw new InvalidUsageException(
          ErrorId.CALLS_DIFFER,
          "a message of %d bytes with tag %d is sent to a receive of %d bytes at %s"
              .formatted(
                  bytes, clear.tag(slot, place), clear.capacity(slot, place), remote().describe()),
          "receive at least as many bytes as are sent");
    }
    int count = clear.count(slot);
    taken[slot] |= 1 << place;
    clear.putSize(slot, place, bytes);
    if (count == 1) {
      clear.putNote(slot, request.note);
    }
    boolean last = taken[slot] == (1 << count) - 1;
    request.used = true;
    request.bytes = bytes;
    request.remaining = 0;
    int pairs = this.pairs.length;
    if (split) {
      int share = (bytes / pairs + SPLIT_UNIT) / SPLIT_UNIT * SPLIT_UNIT;
      for (int i = 0; i < pairs; i++) {
        int begin = (int) Math.min((long) i * share, bytes);
        int length = Math.min(share, bytes - begin);
        post(request, from, offset, begin, length, slot, place, i, last, i == 0);
      }
    } else {
      int pair = (int) ((group - 1) % pairs);
      post(request, from, offset, 0, bytes, slot, place, pair, last, true);
    }
    if (last) {
      finish(slot);
    }
  }

  private void post(
      Request request,
      IbMemory from,
      long offset,
      int begin,
      int length,
      int slot,
      int place,
      int pair,
      boolean last,
      boolean withSizes) {
    if (length == 0 && !last) {
      return;
    }
    long local = from.memory().address() + offset + begin;
    long there = clear.remoteAddress(slot, place) + begin;
    int key = clear.remoteKey(slot, place);
    chain.begin();
    if (last) {
      boolean inImmediate = clear.count(slot) == 1 && Immediate.holds(request.bytes, request.note);
      if (!inImmediate && withSizes) {
        int at = ClearToSend.sizesOffset(slot);
        chain.write(
            clear.address() + at,
            ClearToSend.SIZES_SLOT_BYTES,
            clearRegion.localKey(),
            remote().memory() + at,
            remote().remoteKey(),
            request.index,
            false);
      }
      int immediate =
          inImmediate ? Immediate.of(slot, request.bytes, request.note) : Immediate.ofSlot(slot);
      chain.writeImmediate(local, length, from.localKey(), there, key, request.index, immediate);
    } else {
      chain.write(local, length, from.localKey(), there, key, request.index, true);
    }
    pairs[pair].post(chain);
    request.remaining++;
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
    requests[(int) id].remaining--;
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
    if (clearRegion != null) {
      clearRegion.close();
    }
  }
}
