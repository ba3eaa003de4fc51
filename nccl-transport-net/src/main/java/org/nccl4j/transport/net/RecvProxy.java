package org.nccl4j.transport.net;

import java.nio.ByteBuffer;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.api.spi.NetReceiver;
import org.nccl4j.api.spi.NetRequest;
import org.nccl4j.api.spi.ProxyHandler;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.kernel.ConnectionLayout;

/**
 * Receives into the slots that a kernel has emptied. A step is posted to the network while its slot
 * is empty (step &lt; head + 8), then received: then the kernel may take it (tail > step).
 */
final class RecvProxy implements ProxyHandler {
  private final NetReceiver receiver;
  private final ByteBuffer data;
  private final ByteBuffer credit;
  private final ConnectionLayout layout;
  private final Breakage breakage;
  private final NetRequest[] requests = new NetRequest[ConnectionLayout.STEPS];
  private final NetMemory[] memories;
  private final long[] offsets = new long[1];
  private final int[] sizes;
  private final int[] tags = new int[1];
  private final int[] arrived = new int[1];
  private final StepEvents events;
  private long posted;
  private long received;

  RecvProxy(
      NetReceiver receiver,
      NetMemory memory,
      ByteBuffer data,
      ByteBuffer credit,
      ConnectionLayout layout,
      Ranks ranks) {
    this.receiver = receiver;
    this.memories = new NetMemory[] {memory};
    this.data = data;
    this.credit = credit;
    this.layout = layout;
    this.sizes = new int[] {layout.simpleSlotBytes()};
    this.breakage = new Breakage(ranks);
    this.events = new StepEvents(ranks, "recv");
  }

  @Override
  @HotPath
  public int doWork() {
    if (breakage.happened()) {
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
    long empty = Step.loadAcquire(credit, ConnectionLayout.HEAD) + ConnectionLayout.STEPS;
    int done = 0;
    while (posted < empty) {
      offsets[0] = layout.simple(posted);
      NetRequest request = receiver.irecv(1, memories, offsets, sizes, tags);
      if (request == null) {
        return done;
      }
      requests[slot(posted)] = request;
      events.posted(posted++);
      done++;
    }
    return done;
  }

  /** One step at most: to look for another takes time that the kernel waits. */
  private int complete() {
    if (received == posted || !requests[slot(received)].test(arrived)) {
      return 0;
    }
    events.done(received, arrived[0]);
    received++;
    Step.storeRelease(data, ConnectionLayout.TAIL, received);
    return 1;
  }

  private static int slot(long step) {
    return (int) step & (ConnectionLayout.STEPS - 1);
  }

  /** Only a kernel that waits needs what is received, and it gives turns itself. */
  @Override
  @HotPath
  public boolean isUnderWay() {
    return false;
  }
}
