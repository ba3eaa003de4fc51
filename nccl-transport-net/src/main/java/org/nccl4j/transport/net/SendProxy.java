package org.nccl4j.transport.net;

import java.nio.ByteBuffer;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.api.spi.NetRequest;
import org.nccl4j.api.spi.NetSender;
import org.nccl4j.api.spi.ProxyHandler;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.kernel.ConnectionLayout;

/**
 * Sends the slots that a kernel fills. A step is filled (tail > step), then posted to the network,
 * then transmitted: then its slot may be filled again (head > step).
 */
final class SendProxy implements ProxyHandler {
  private static final int TAG = 0;

  private final NetSender sender;
  private final NetMemory memory;
  private final ByteBuffer data;
  private final ByteBuffer credit;
  private final ConnectionLayout layout;
  private final Breakage breakage;
  private final NetRequest[] requests = new NetRequest[ConnectionLayout.STEPS];
  private final StepEvents events;
  private long posted;
  private long transmitted;

  SendProxy(
      NetSender sender,
      NetMemory memory,
      ByteBuffer data,
      ByteBuffer credit,
      ConnectionLayout layout,
      Ranks ranks) {
    this.sender = sender;
    this.memory = memory;
    this.data = data;
    this.credit = credit;
    this.layout = layout;
    this.breakage = new Breakage(ranks);
    this.events = new StepEvents(ranks, "send");
  }

  @Override
  @HotPath
  public int doWork() {
    long filled = Step.loadAcquire(data, ConnectionLayout.TAIL);
    if (transmitted == filled || breakage.happened()) {
      return 0;
    }
    try {
      return post(filled) + complete();
    } catch (NcclException e) {
      breakage.notice(e);
      return 0;
    }
  }

  private int post(long filled) {
    int done = 0;
    while (posted < filled) {
      int bytes = data.getInt((int) ConnectionLayout.size(posted));
      NetRequest request = sender.isend(memory, layout.simple(posted), bytes, TAG);
      if (request == null) {
        return done;
      }
      requests[slot(posted)] = request;
      events.posted(posted++);
      done++;
    }
    return done;
  }

  private int complete() {
    int done = 0;
    while (transmitted < posted && requests[slot(transmitted)].test(null)) {
      events.done(transmitted, data.getInt((int) ConnectionLayout.size(transmitted)));
      transmitted++;
      done++;
    }
    if (done > 0) {
      Step.storeRelease(credit, ConnectionLayout.HEAD, transmitted);
    }
    return done;
  }

  private static int slot(long step) {
    return (int) step & (ConnectionLayout.STEPS - 1);
  }

  @Override
  @HotPath
  public boolean isUnderWay() {
    return Step.loadAcquire(data, ConnectionLayout.TAIL)
        != Step.loadAcquire(credit, ConnectionLayout.HEAD);
  }
}
