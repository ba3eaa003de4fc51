package org.nccl4j.device.host.kernel.window;

import java.nio.ByteBuffer;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.host.kernel.protocol.Copies;
import org.nccl4j.device.host.kernel.protocol.RecvEnd;
import org.nccl4j.device.host.memory.AtomicWords;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.kernel.RmaMessage;
import org.nccl4j.device.kernel.RmaSpace;

/**
 * Puts the messages of {@link HostRmaSender} into this rank's windows and counts their signals.
 * Owned by the thread that gives the communicator's proxy its turn.
 */
public final class HostRmaReceiver implements RmaSpace.Arrivals {
  private final ConnectionLayout layout;

  /** By rank; null where there is none yet. Replaced, never changed. */
  private volatile RecvEnd[] recvs;

  private final HostRmaSender puts;
  private final RmaSpace.Windows windows;
  private final HostMemory signals;
  private final RmaSpace.Targets targets;
  private final long[] signalled;
  private final int slotBytes;

  /** By rank: the put whose steps of data alone are coming; its rest is 0 if there is none. */
  private final Behind[] behinds;

  /** The steps of data alone behind a message. */
  private static final class Behind {
    private long window;
    private long offset;

    /** Bytes that have not come. */
    private long rest;

    /** Bytes of which the end has not been told where they go. */
    private long untold;

    private int signal;
  }

  public HostRmaReceiver(
      int rank, RmaSpace space, ConnectionLayout layout, HostMemory signals, HostRmaSender puts) {
    this.layout = layout;
    this.puts = puts;
    this.windows = space.windows();
    this.signals = signals;
    this.targets =
        new RmaSpace.Targets(rank, windows, layout.simpleSlotBytes() - RmaMessage.HEADER);
    this.slotBytes = layout.simpleSlotBytes();
    int n = space.recvs().size();
    RecvEnd[] ends = new RecvEnd[n];
    this.behinds = new Behind[n];
    for (int peer = 0; peer < n; peer++) {
      Connection from = space.recvs().get(peer);
      ends[peer] = from == null ? null : new RecvEnd(peer, from, layout);
      behinds[peer] = new Behind();
    }
    this.recvs = ends;
    this.signalled = new long[n];
  }

  @Override
  public synchronized void connect(int rank, Connection send, Connection recv) {
    puts.connect(rank, send);
    RecvEnd[] more = recvs.clone();
    more[rank] = new RecvEnd(rank, recv, layout);
    recvs = more;
  }

  @Override
  @HotPath
  public int doWork() {
    int done = 0;
    for (RecvEnd end : recvs) {
      if (end != null && end.hasData()) {
        Behind behind = behinds[end.peer];
        done += behind.rest > 0 ? takeData(end, behind) : take(end);
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
    long rest = words.getLong(at + RmaMessage.BEHIND);
    boolean writes = bytes != 0 || rest != 0;
    if (writes && windows.isToCome(window)) {
      return 0;
    }
    HostMemory target =
        writes ? HostMemory.of(targets.of(end.peer, window, offset, bytes, rest)) : null;
    if (bytes != 0) {
      Copies.copy(memory, slot + RmaMessage.HEADER, target, offset + rest, bytes);
    }
    end.release();
    if (rest == 0) {
      signal(end.peer, signal);
      return 1;
    }
    Behind behind = behinds[end.peer];
    behind.window = window;
    behind.offset = offset;
    behind.rest = rest;
    behind.untold = rest;
    behind.signal = signal;
    tell(end, behind, target);
    return 1;
  }

  private void signal(int peer, int more) {
    if (more != 0) {
      signalled[peer] += more;
      AtomicWords.storeRelease(signals, HostRmaSender.signal(peer), signalled[peer]);
    }
  }

  /** Takes a step of data alone, which may be in the window already. */
  private int takeData(RecvEnd end, Behind behind) {
    int bytes = (int) Math.min(slotBytes, behind.rest);
    HostMemory target = target(end, behind);
    end.locate(null); // nothing is exposed, so it waits for nothing
    if (!end.isPlaced()) {
      Copies.copy(end.part(), end.partOffset(0), target, behind.offset, bytes);
    }
    end.release();
    behind.offset += bytes;
    behind.rest -= bytes;
    if (behind.rest > 0) {
      tell(end, behind, target);
      return 1;
    }
    signal(end.peer, behind.signal);
    return 1;
  }

  /** The window of a put, as long as it is registered. */
  private HostMemory target(RecvEnd end, Behind behind) {
    return HostMemory.of(targets.of(end.peer, behind.window, behind.offset, 0, behind.rest));
  }

  /** Tells the proxy where the data of the next steps go. */
  private void tell(RecvEnd end, Behind behind, HostMemory target) {
    while (behind.untold > 0 && end.mayWantNext()) {
      int bytes = (int) Math.min(slotBytes, behind.untold);
      long at = behind.offset + behind.rest - behind.untold;
      end.wantOrDecline(target, at, bytes);
      behind.untold -= bytes;
    }
  }

  @Override
  public void end() {
    for (RecvEnd end : recvs) {
      if (end != null) {
        end.close();
      }
    }
  }

  @Override
  public long sent(int peer) {
    return puts.sent(peer);
  }

  @Override
  public long arrived(int peer) {
    RecvEnd end = recvs[peer];
    return end == null ? 0 : AtomicWords.loadAcquire(end.creditMemory(), ConnectionLayout.HEAD);
  }
}
