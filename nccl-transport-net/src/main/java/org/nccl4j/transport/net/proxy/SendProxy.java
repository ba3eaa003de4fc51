package org.nccl4j.transport.net.proxy;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import org.nccl4j.api.spi.NetRequest;
import org.nccl4j.api.spi.NetSender;
import org.nccl4j.api.spi.ProxyHandler;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.NcclException;
import org.nccl4j.transport.net.memory.ProxyChannel;

/**
 * Sends the slots that a kernel fills. A step is filled (tail > step, or in LL its lines have
 * come), then posted to the network, then transmitted: then its slot may be filled again (head >
 * step).
 */
public final class SendProxy implements ProxyHandler {
  private static final int TAG = 0;
  private static final VarHandle BYTES;

  static {
    try {
      BYTES = MethodHandles.lookup().findVarHandle(SendProxy.class, "bytes", long.class);
    } catch (ReflectiveOperationException e) {
      throw new ExceptionInInitializerError(e);
    }
  }

  private final NetSender sender;
  private final ProxyChannel channel;
  private final DelayedFailure breakage;
  private final NetRequest[] requests;
  private final StepEvents events;
  private long posted;
  private long transmitted;

  /** Steps that need no more turns, though their slots may not be filled again yet. */
  private volatile long handedOver;

  /** Bytes of the posted steps. Written by the thread that works; read by any, a little late. */
  private long bytes;

  /** The last posted step's note. */
  private int noted;

  public SendProxy(NetSender sender, ProxyChannel channel, EndpointNames ranks, StepEvents events) {
    this.sender = sender;
    this.channel = channel;
    this.requests = new NetRequest[channel.slots()];
    this.breakage = new DelayedFailure(ranks);
    this.events = events;
  }

  @Override
  @HotPath
  public int doWork() {
    if (transmitted == posted && !channel.isBegun(posted) || breakage.happened()) {
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
    while (posted < transmitted + channel.slots() && isFilled(posted)) {
      events.filled(posted + 1);
      int note = channel.note(posted);
      int size = channel.size(posted);
      NetRequest request =
          sender.isend(
              channel.memory(posted), channel.offset(posted), size, TAG, note == noted ? 0 : note);
      if (request == null) {
        return done;
      }
      requests[channel.slot(posted)] = request;
      noted = note;
      BYTES.setOpaque(this, bytes + size);
      events.posted(posted++);
      done++;
    }
    return done;
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
      channel.emptied(transmitted++);
      done++;
    }
    if (done > 0) {
      channel.setHead(transmitted);
    }
    while (handedOver < posted && !requests[channel.slot(handedOver)].needsTurns()) {
      handOver();
    }
    return done;
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

  @Override
  @HotPath
  public boolean isUnderWay() {
    return channel.isBegun(handedOver);
  }
}
