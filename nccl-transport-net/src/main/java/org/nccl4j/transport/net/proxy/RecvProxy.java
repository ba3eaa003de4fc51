package org.nccl4j.transport.net.proxy;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.api.spi.NetReceiver;
import org.nccl4j.api.spi.NetRequest;
import org.nccl4j.api.spi.ProxyHandler;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.NcclException;
import org.nccl4j.transport.net.memory.PlacedBuffers;
import org.nccl4j.transport.net.memory.ProxyChannel;

/**
 * Receives into the slots that a kernel has emptied. A step is posted to the network while its slot
 * is empty (step &lt; head + slots), then received, then flushed if it is in a GPU: then the kernel
 * may take it (tail > step). The message of a step in LL becomes lines, which the kernel looks for.
 */
public final class RecvProxy implements ProxyHandler {
  /** Number of empty looks after which the network is asked less often: asking takes time. */
  private static final int QUIET_LOOKS = 64;

  private static final int TURNS_BETWEEN_LOOKS = 16;
  private static final long NANOS_BETWEEN_LOOKS = 150_000;

  private static final VarHandle BYTES;
  private static final VarHandle POSTED;
  private static final VarHandle RECEIVED;

  static {
    try {
      MethodHandles.Lookup lookup = MethodHandles.lookup();
      BYTES = lookup.findVarHandle(RecvProxy.class, "bytes", long.class);
      POSTED = lookup.findVarHandle(RecvProxy.class, "posted", long.class);
      RECEIVED = lookup.findVarHandle(RecvProxy.class, "received", long.class);
    } catch (ReflectiveOperationException e) {
      throw new ExceptionInInitializerError(e);
    }
  }

  private final NetReceiver receiver;
  private final ProxyChannel channel;
  private final boolean polled;
  private final DelayedFailure breakage;
  private final NetRequest[] requests;

  /** True if the slots are in a GPU's memory. */
  private final boolean inGpu;

  /** Null where all memory is the host's. */
  private final GdrFlush flushes;

  private final NetMemory[] memories = new NetMemory[1];
  private final long[] offsets = new long[1];
  private final int[] sizes;
  private final int[] tags = new int[1];
  private final int[] arrived = new int[1];
  private final StepEvents events;

  /** Null where all steps go to slots. */
  private final PlacedReceives placed;

  /** True once a kernel that wanted data in a buffer has failed: nothing is received any more. */
  private volatile boolean ended;

  /** Steps posted and received. Written by the thread that works; read by any, a little late. */
  private long posted;

  private long received;

  /** Bytes of the received steps. As above. */
  private long bytes;

  /** The last note that came. */
  private int noted;

  private int quietLooks;
  private int turns;
  private long lookedAt;

  /**
   * A proxy.
   *
   * @param polled whether no kernel waits until a turn ends, so that a turn takes all that has come
   */
  public RecvProxy(
      NetReceiver receiver,
      ProxyChannel channel,
      EndpointNames ranks,
      boolean polled,
      StepEvents events) {
    this(receiver, channel, ranks, polled, events, null);
  }

  /**
   * A proxy.
   *
   * @param polled as above
   * @param buffers in which kernels or puts may want steps; null where all go to slots
   */
  public RecvProxy(
      NetReceiver receiver,
      ProxyChannel channel,
      EndpointNames ranks,
      boolean polled,
      StepEvents events,
      PlacedBuffers buffers) {
    this.placed = buffers == null ? null : new PlacedReceives(buffers, receiver, channel.slots());
    this.receiver = receiver;
    this.channel = channel;
    this.polled = polled;
    this.requests = new NetRequest[channel.slots()];
    this.inGpu = channel.isInGpu();
    boolean flushed = inGpu || buffers != null && buffers.gpu() != null;
    this.flushes = flushed ? new GdrFlush(receiver, channel, events) : null;
    this.sizes = new int[] {channel.slotBytes()};
    this.breakage = new DelayedFailure(ranks);
    this.events = events;
  }

  @Override
  @HotPath
  public int doWork() {
    if (ended || breakage.happened()) {
      return 0;
    }
    try {
      int done = post();
      if (placed != null) {
        placed.move(received, posted, requests);
      }
      return isDue() ? done + complete() : done;
    } catch (NcclException e) {
      breakage.notice(e);
      return 0;
    }
  }

  /** A kernel does not wait for a step in LL without lines, so its head may be ahead. */
  private int post() {
    long empty = Math.min(channel.head(), received) + channel.slots();
    int done = 0;
    while (posted < empty) {
      channel.emptied(posted);
      boolean direct = placed != null && placed.begins(posted, received);
      boolean moved = placed != null && placed.movesNext(posted, received);
      memories[0] = direct ? placed.memory() : channel.memory(posted);
      offsets[0] = direct ? placed.offset() : channel.offset(posted);
      sizes[0] = direct ? placed.bytes(posted) : channel.slotBytes();
      NetRequest request = receiver.irecv(1, memories, offsets, sizes, tags);
      if (request == null) {
        return done;
      }
      if (direct || moved) {
        placed.placed(posted, channel.slot(posted));
      }
      requests[channel.slot(posted)] = request;
      events.posted(posted);
      POSTED.setOpaque(this, posted + 1);
      done++;
    }
    return done;
  }

  /**
   * True if it is time to ask. Of many polled connections few are in use. A kernel that waits asks
   * at every turn.
   */
  private boolean isDue() {
    return !polled
        || quietLooks < QUIET_LOOKS
        || ++turns % TURNS_BETWEEN_LOOKS == 0
        || System.nanoTime() - lookedAt > NANOS_BETWEEN_LOOKS;
  }

  /** Before a kernel that waits, one step at most: to look for another takes time. */
  private int complete() {
    int done = 0;
    if (++quietLooks >= QUIET_LOOKS) {
      lookedAt = System.nanoTime();
    }
    while (received < posted && requests[channel.slot(received)].test(arrived)) {
      NetRequest request = requests[channel.slot(received)];
      take(request.note());
      boolean direct = placed != null && placed.take(received, channel.slot(received), request);
      events.received(received, arrived[0], direct);
      BYTES.setOpaque(this, bytes + arrived[0]);
      if (flushes == null) {
        events.done(received);
        RECEIVED.setOpaque(this, received + 1);
        channel.setTail(received);
      } else {
        flush(direct);
        RECEIVED.setOpaque(this, received + 1);
      }
      quietLooks = 0;
      done++;
      if (!polled) {
        break;
      }
    }
    if (done > 0 && placed != null) {
      placed.forgetEnded(received);
    }
    return flushes == null ? done : done + flushes.complete(received);
  }

  private void flush(boolean direct) {
    int slot = channel.slot(received);
    if (direct) {
      flushes.begin(received, placed.placeOf(slot), placed.offsetOf(slot), arrived[0]);
    } else if (inGpu) {
      flushes.begin(received, channel.memory(received), channel.offset(received), arrived[0]);
    }
  }

  /** Passes on the lines of the received step, or of which call it is. */
  private void take(int note) {
    if (note != 0) {
      noted = note;
    }
    if (channel.holdsLines(noted, arrived[0])) {
      channel.unpack(received, arrived[0]);
    } else {
      channel.setNote(received, noted);
    }
  }

  /** {@inheritDoc} The end of the connection is the end of its messages. */
  @Override
  public void endExposures() {
    endReceives();
  }

  @Override
  public void endReceives() {
    if (placed != null && !ended) {
      ended = true;
      if (placed.areInProgress(received)) {
        receiver.close();
      }
    }
  }

  /** {@inheritDoc} Waits for receives in progress, which may be in that memory. */
  @Override
  public void forgetBuffers() {
    if (placed != null && !ended) {
      placed.forget(received);
    }
  }

  /** Bytes that have been received. Any thread. */
  public long bytesReceived() {
    return (long) BYTES.getOpaque(this);
  }

  /** True if there is an empty slot, or a wanted buffer, in which nothing has come. Any thread. */
  public boolean hasRoom() {
    return (long) POSTED.getOpaque(this) > (long) RECEIVED.getOpaque(this);
  }

  /** Forgets the buffers that data were received in. */
  public void close() {
    if (placed != null) {
      placed.close();
    }
  }

  /**
   * {@inheritDoc} Only a kernel that waits needs what is received, and it gives turns itself or is
   * polled for. A sender may wait for an answer that the last kernel has left.
   */
  @Override
  @HotPath
  public boolean isUnderWay() {
    return !polled && !ended && receiver.owesAnswer();
  }
}
