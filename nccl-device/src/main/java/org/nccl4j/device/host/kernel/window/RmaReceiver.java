package org.nccl4j.device.host.kernel.window;

import java.nio.ByteBuffer;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.kernel.protocol.Copies;
import org.nccl4j.device.host.kernel.protocol.RecvEnd;
import org.nccl4j.device.host.memory.AtomicWords;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.kernel.Connection;
import org.nccl4j.device.kernel.ConnectionLayout;
import org.nccl4j.device.kernel.RmaMessage;
import org.nccl4j.device.kernel.RmaSpace;

/**
 * Puts the messages of {@link RmaSender} into this rank's windows and counts their signals. Owned
 * by the thread that gives the communicator's proxy its turn.
 */
public final class RmaReceiver implements RmaSpace.Arrivals {
  private final RecvEnd[] recvs;
  private final RmaSender puts;
  private final RmaSpace.Windows windows;
  private final HostMemory signals;
  private final RmaSpace.Targets targets;
  private final long[] signalled;

  public RmaReceiver(
      int rank, RmaSpace space, ConnectionLayout layout, HostMemory signals, RmaSender puts) {
    this.puts = puts;
    this.windows = space.windows();
    this.signals = signals;
    this.targets =
        new RmaSpace.Targets(rank, windows, layout.simpleSlotBytes() - RmaMessage.HEADER);
    this.recvs = new RecvEnd[space.recvs().size()];
    for (int peer = 0; peer < recvs.length; peer++) {
      Connection from = space.recvs().get(peer);
      recvs[peer] = from == null ? null : new RecvEnd(peer, from, layout);
    }
    this.signalled = new long[recvs.length];
  }

  @Override
  @HotPath
  public int doWork() {
    int done = 0;
    for (RecvEnd end : recvs) {
      if (end != null && end.hasData()) {
        done += take(end);
      }
    }
    return done;
  }

  private int take(RecvEnd end) {
    HostMemory memory = end.memory();
    long slot = end.simpleSlot();
    ByteBuffer words = memory.window(slot);
    int at = memory.index(slot);
    long window = words.getLong(at);
    long offset = words.getLong(at + RmaMessage.OFFSET);
    int bytes = words.getInt(at + RmaMessage.BYTES);
    int signal = words.getInt(at + RmaMessage.SIGNALS);
    if (bytes != 0 && windows.isToCome(window)) {
      return 0;
    }
    if (bytes != 0) {
      Copies.copy(
          memory,
          slot + RmaMessage.HEADER,
          HostMemory.of(targets.of(end.peer, window, offset, bytes)),
          offset,
          bytes);
    }
    end.release();
    if (signal != 0) {
      signalled[end.peer] += signal;
      AtomicWords.storeRelease(signals, RmaSender.signal(end.peer), signalled[end.peer]);
    }
    return 1;
  }

  @Override
  public long sent(int peer) {
    return puts.sent(peer);
  }

  @Override
  public long arrived(int peer) {
    return recvs[peer] == null
        ? 0
        : AtomicWords.loadAcquire(recvs[peer].creditMemory(), ConnectionLayout.HEAD);
  }
}
