package org.nccl4j.transport.net.ib;

import static org.nccl4j.transport.net.ib.verbs.VerbsLayout.*;

import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.api.spi.NetReceiver;
import org.nccl4j.api.spi.NetRequest;
import org.nccl4j.device.Device;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.RemoteException;
import org.nccl4j.transport.net.ib.device.IbSettings;
import org.nccl4j.transport.net.ib.device.RegistrationCache;
import org.nccl4j.transport.net.ib.verbs.WorkRequests;

/**
 * The receiving end. Each group of receives takes a slot of {@link ClearToSend}, posts what the
 * sender's immediate will end, and writes the slot into the sender's memory.
 */
final class IbReceiver extends IbConnection implements NetReceiver {
  private static final int ANNOUNCEMENTS_BETWEEN_SIGNALS = 16;
  private static final long ANNOUNCEMENT = -1;

  private final boolean split;
  private final ClearToSend image = new ClearToSend();
  private final RegistrationCache.Region imageRegion;
  private final WorkRequests chain = new WorkRequests(1);
  private final Request[] requests = new Request[ClearToSend.SLOTS];
  private long next = 1;
  private FlushPair flush;

  /** A group of receives under way. */
  private final class Request implements NetRequest {
    private final int slot;
    private final int[] received = new int[ClearToSend.MAX_RECEIVES];
    private boolean used;
    private int count;
    private int remaining;
    private int note;

    private Request(int slot) {
      this.slot = slot;
    }

    @Override
    @HotPath
    public boolean test(int[] sizes) {
      if (remaining > 0) {
        progress();
        if (remaining > 0) {
          return false;
        }
      }
      used = false;
      if (sizes != null) {
        System.arraycopy(received, 0, sizes, 0, count);
      }
      return true;
    }

    @Override
    @HotPath
    public int note() {
      return note;
    }

    private void ended(int immediate) {
      if (Immediate.hasSize(immediate)) {
        received[0] = Immediate.size(immediate);
        note = Immediate.note(immediate);
      }
      if (--remaining == 0 && !Immediate.hasSize(immediate)) {
        for (int i = 0; i < count; i++) {
          received[i] = image.size(slot, i);
        }
        note = count == 1 ? image.note(slot) : 0;
      }
    }
  }

  IbReceiver(IbSettings settings, LocalQpInfo local, int pairs, boolean split) {
    super(
        settings,
        local,
        pairs,
        2 * ClearToSend.SLOTS,
        ClearToSend.SLOTS,
        ClearToSend.SLOTS * (split ? pairs : 1) + 2 * ClearToSend.SLOTS);
    this.split = split;
    for (int slot = 0; slot < ClearToSend.SLOTS; slot++) {
      requests[slot] = new Request(slot);
    }
    RegistrationCache.Region region = null;
    try {
      region = device.cache().register(image.address(), ClearToSend.BYTES);
    } finally {
      if (region == null) {
        close();
      }
    }
    imageRegion = region;
  }

  /** Returns the information that this end sends to the sender. */
  RemoteQpInfo describe(int rank) {
    return describe(rank, split, image.address(), imageRegion.remoteKey());
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
    int slot = (int) ((next - 1) % ClearToSend.SLOTS);
    Request request = requests[slot];
    if (request.used) {
      progress();
      return null;
    }
    for (int i = 0; i < n; i++) {
      IbMemory to = checked(memories[i], offsets[i], bytes[i]);
      image.put(
          slot, i, n, next, to.memory().address() + offsets[i], to.remoteKey(), bytes[i], tags[i]);
    }
    request.used = true;
    request.count = n;
    request.remaining = split ? pairs.length : 1;
    if (split) {
      for (QueuePair pair : pairs) {
        pair.postReceive(slot);
      }
    } else {
      pairs[(int) ((next - 1) % pairs.length)].postReceive(slot);
    }
    announce(slot, n);
    next++;
    return request;
  }

  /** Writes a slot to the sender, always through the first queue pair: slots arrive in order. */
  private void announce(int slot, int n) {
    int at = ClearToSend.slotOffset(slot);
    chain
        .begin()
        .write(
            image.address() + at,
            n * ClearToSend.ENTRY_BYTES,
            imageRegion.localKey(),
            remote().memory() + at,
            remote().remoteKey(),
            ANNOUNCEMENT,
            next % ANNOUNCEMENTS_BETWEEN_SIGNALS == 0);
    pairs[0].post(chain);
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
    if (flush == null) {
      connectFlush();
    }
    return flush.begin(received.memory().address() + offset, received.remoteKey());
  }

  /** Connects the pair of the first flush. */
  private void connectFlush() {
    flush = new FlushPair(this);
  }

  @Override
  void completed(int opcode, long id, int immediate) {
    if (opcode == WC_RECV_RDMA_WITH_IMM) {
      int slot = Immediate.slot(immediate);
      if (!requests[slot].used || requests[slot].remaining == 0) {
        throw new RemoteException(
            ErrorId.PROTOCOL,
            "%s ended a receive that is not under way".formatted(remote().describe()),
            "run the same version of nccl4j on all ranks");
      }
      requests[slot].ended(immediate);
    } else if (opcode == WC_RDMA_READ) {
      flush.completed((int) id);
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
    if (flush != null) {
      flush.close();
    }
    if (imageRegion != null) {
      imageRegion.close();
    }
  }
}
