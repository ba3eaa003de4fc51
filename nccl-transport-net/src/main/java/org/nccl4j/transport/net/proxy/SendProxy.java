package org.nccl4j.transport.net.proxy;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.api.spi.NetRequest;
import org.nccl4j.api.spi.NetSender;
import org.nccl4j.api.spi.ProxyHandler;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.NcclException;
import org.nccl4j.transport.net.memory.ExposedBuffers;
import org.nccl4j.transport.net.memory.ProxyChannel;

/**
 * Sends the slots that a kernel fills, and what it exposes from where that lies. A step is filled
 * (tail > step, or in LL its lines have come), then posted to the network, then transmitted: then
 * its slot may be filled again (head > step).
 */
public final class SendProxy implements ProxyHandler {
  private static final int TAG = 0;
  private static final VarHandle BYTES;
  private static final VarHandle DELIVERED;

  static {
    try {
      BYTES = MethodHandles.lookup().findVarHandle(SendProxy.class, "bytes", long.class);
      DELIVERED = MethodHandles.lookup().findVarHandle(SendProxy.class, "delivered", long.class);
    } catch (ReflectiveOperationException e) {
      throw new ExceptionInInitializerError(e);
    }
  }

  private final NetSender sender;
  private final ProxyChannel channel;
  private final DelayedFailure breakage;
  private final NetRequest[] requests;
  private final StepEvents events;

  /** Null where kernels fill slots only. */
  private final ExposedBuffers exposed;

  /** True once a kernel that exposed buffers has failed: nothing is sent any more. */
  private volatile boolean ended;

  /** True if memory has been deregistered that the network may know. */
  private boolean forgets;

  /** True if the step that is posted is sent from a buffer. */
  private boolean direct;

  private long posted;
  private long transmitted;

  /** Steps that need no more turns, though their slots may not be filled again yet. */
  private volatile long handedOver;

  /** Bytes of the posted steps. Written by the thread that works; read by any, a little late. */
  private long bytes;

  /** Bytes of the transmitted steps. As above. */
  private long delivered;

  /** Bytes of the posted steps, by slot. */
  private final int[] sizes;

  /** The last posted step's note. */
  private int noted;

  /** A proxy of a connection whose kernels fill slots only. */
  public SendProxy(NetSender sender, ProxyChannel channel, EndpointNames ranks, StepEvents events) {
    this(sender, channel, ranks, events, null);
  }

  /**
   * A proxy.
   *
   * @param exposed the buffers that kernels expose; null where they fill slots only
   */
  public SendProxy(
      NetSender sender,
      ProxyChannel channel,
      EndpointNames ranks,
      StepEvents events,
      ExposedBuffers exposed) {
    this.exposed = exposed;
    this.sender = sender;
    this.channel = channel;
    this.requests = new NetRequest[channel.slots()];
    this.sizes = new int[channel.slots()];
    this.breakage = new DelayedFailure(ranks);
    this.events = events;
  }

  @Override
  @HotPath
  public int doWork() {
    if (transmitted == posted && !channel.isBegun(posted) || ended || breakage.happened()) {
      return 0;
    }
    try {
      return post() + complete();
    } catch (NcclException e) {
      breakage.notice(e);
      return 0;
    }
  }

  private int post() {
    int done = 0;
    if (exposed != null) {
      exposed.steps().answer();
    }
    while (posted < transmitted + channel.slots() && isFilled(posted)) {
      events.filled(posted + 1);
      int note = channel.note(posted);
      boolean exposes = exposed != null && exposed.steps().isExposed(posted);
      int size = exposes ? exposed.steps().bytes(posted) : channel.size(posted);
      NetRequest request = send(exposes, size, note == noted ? 0 : note);
      if (request == null) {
        return done;
      }
      requests[channel.slot(posted)] = request;
      noted = note;
      sizes[channel.slot(posted)] = size;
      BYTES.setOpaque(this, bytes + size);
      events.posted(posted++, direct);
      done++;
    }
    return done;
  }

  private NetRequest send(boolean exposes, int size, int note) {
    direct = false;
    if (!exposes) {
      return sender.isend(channel.memory(posted), channel.offset(posted), size, TAG, note);
    }
    if (!exposed.steps().begin(posted)) {
      return null;
    }
    direct = !channel.pads(size) && exposed.find(posted, size, transmitted == posted);
    if (channel.pads(size)) {
      exposed.copy(posted, size);
    }
    int bytes = direct ? size : channel.padded(size);
    NetMemory from = direct ? exposed.memory() : channel.memory(posted);
    long offset = direct ? exposed.offset() : channel.offset(posted);
    return exposed.arePlaced()
        ? sender.isendPlaced(from, offset, bytes, TAG, note)
        : sender.isend(from, offset, bytes, TAG, note);
  }

  /** Loads the tail first: a tail of later steps does not say that a step in LL is in Simple. */
  private boolean isFilled(long step) {
    boolean passed = channel.tail() > step;
    return channel.hasLines(step) ? channel.pack(step) : passed;
  }

  private int complete() {
    int done = 0;
    while (transmitted < posted && requests[channel.slot(transmitted)].test(null)) {
      if (handedOver == transmitted) {
        handOver();
      }
      DELIVERED.setOpaque(this, delivered + sizes[channel.slot(transmitted)]);
      channel.emptied(transmitted++);
      done++;
    }
    if (done > 0) {
      channel.setHead(transmitted);
      if (forgets) {
        forgetEnded();
      }
    }
    while (handedOver < posted && !requests[channel.slot(handedOver)].needsTurns()) {
      handOver();
    }
    return done;
  }

  /** {@inheritDoc} Waits for messages in progress, which may be in that memory. */
  @Override
  public void forgetBuffers() {
    forgets = exposed != null && !ended;
    forgetEnded();
  }

  private void forgetEnded() {
    if (forgets && transmitted == posted) {
      forgets = false;
      exposed.forgetEnded();
    }
  }

  /** The network has a step, and nobody has to give it turns for that step. */
  private void handOver() {
    long step = handedOver;
    events.done(step);
    handedOver = step + 1;
  }

  /** Bytes that have been given to the network. Any thread. */
  public long bytesSent() {
    return (long) BYTES.getOpaque(this);
  }

  /**
   * Bytes of these that have been transmitted, as far as this has found out. It finds out in its
   * turns: after an operation's end it may have none. Any thread.
   */
  public long bytesDelivered() {
    return (long) DELIVERED.getOpaque(this);
  }

  @Override
  @HotPath
  public boolean isUnderWay() {
    return channel.isBegun(handedOver) && !ended;
  }

  /**
   * {@inheritDoc} The end of the connection is the end of its messages, whatever the network has
   * done with them.
   */
  @Override
  public void endExposures() {
    if (exposed != null && !ended) {
      ended = true;
      sender.close();
      exposed.steps().end();
    }
  }

  /** Forgets the buffers that were exposed. */
  public void close() {
    if (exposed != null) {
      exposed.close();
    }
  }
}
