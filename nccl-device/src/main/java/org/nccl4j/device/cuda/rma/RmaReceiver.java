package org.nccl4j.device.cuda.rma;

import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicLongArray;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.cuda.driver.DriverLibrary;
import org.nccl4j.device.cuda.driver.Gpu;
import org.nccl4j.device.cuda.stream.GpuStream;
import org.nccl4j.device.kernel.KernelCommunicatorSpec;
import org.nccl4j.device.kernel.RmaMessage;
import org.nccl4j.device.kernel.RmaSpace;

/**
 * Puts the messages of other ranks' {@link RmaSender} into this rank's windows, by copies in a
 * stream of its own, unless the network card has written them there ({@link PlacedPuts}), and tells
 * the user's streams of their signals once all data before are there. Owned by the thread that
 * gives the communicator's proxy its turn.
 */
public final class RmaReceiver implements RmaSpace.Arrivals, AutoCloseable {
  private final Gpu gpu;
  private final ConnectionLayout layout;
  private final RmaSpace.Windows windows;
  private final RmaSender puts;
  private final RmaFlags words;
  private final int slotBytes;
  private final GpuStream stream;
  private final RmaSpace.Targets targets;
  private final List<From> froms = new CopyOnWriteArrayList<>();
  private final AtomicLongArray arrived;

  /** One rank's messages. */
  private final class From {
    private final int peer;
    private final long data;
    private final HostVisibleEnd end;

    /** Null where all data come to slots. */
    private final PlacedPuts placed;

    // The put whose steps of data alone are coming: bytes that are left, and of which it was not
    // told where they go.
    private long window;
    private long offset;
    private long rest;
    private long untold;
    private int signal;

    /** Signals of messages that are not done, by slot. */
    private final int[] signals = new int[ConnectionLayout.STEPS];

    /** Messages that were looked at, those up to the last that was copied, and those done. */
    private long taken;

    private long copied;
    private long done;
    private long signalled;

    From(int peer, Connection connection) {
      this.peer = peer;
      data = connection.data().address();
      placed = connection.placed() instanceof PlacedPuts puts ? puts : null;
      end = new HostVisibleEnd(gpu, connection, layout);
    }
  }

  public RmaReceiver(Gpu gpu, KernelCommunicatorSpec spec, RmaSpace space) {
    this.gpu = gpu;
    this.layout = spec.layout();
    this.windows = space.windows();
    slotBytes = layout.simpleSlotBytes() / ConnectionLayout.CHANNELS;
    long room = slotBytes - RmaMessage.HEADER;
    targets = new RmaSpace.Targets(spec.rank(), windows, room);
    arrived = new AtomicLongArray(space.recvs().size());
    for (int peer = 0; peer < space.recvs().size(); peer++) {
      Connection from = space.recvs().get(peer);
      if (from != null) {
        froms.add(new From(peer, from));
      }
    }
    stream = GpuStream.urgent(gpu);
    try {
      puts = new RmaSender(gpu, spec, space);
    } catch (RuntimeException e) {
      stream.close();
      throw e;
    }
    words = puts.words();
  }

  @Override
  public void connect(int rank, Connection send, Connection recv) {
    puts.connect(rank, send);
    froms.add(new From(rank, recv));
  }

  /** The other direction. */
  public RmaSender puts() {
    return puts;
  }

  @Override
  @HotPath
  public int doWork() {
    int done = puts.giveCredit();
    for (int i = 0; i < froms.size(); i++) {
      From from = froms.get(i);
      if (from.end.tail() > from.taken) {
        done += take(from);
      }
      if (from.done < from.taken) {
        done += finish(from);
      }
    }
    return done;
  }

  private int take(From from) {
    long before = gpu.context().enter();
    try {
      long first = from.taken;
      long tail = from.end.tail();
      long copies = from.copied;
      while (from.taken < tail && take(from, from.taken)) {
        from.taken++;
      }
      if (from.copied > copies) {
        long word = words.address(RmaFlags.copied(from.peer));
        DriverLibrary.streamWrite(stream.handle(), word, from.copied, true, gpu);
      }
      return (int) (from.taken - first);
    } finally {
      gpu.context().leave(before);
    }
  }

  /**
   * Begins what a step says; no if its window is not registered here yet, or the network card would
   * write into the window before earlier data are copied there.
   */
  private boolean take(From from, long step) {
    if (from.rest > 0) {
      takeData(from, step);
      return true;
    }
    long window = from.end.getLong(step, 0);
    long offset = from.end.getLong(step, RmaMessage.OFFSET);
    int bytes = from.end.getInt(step, RmaMessage.BYTES);
    long behind = from.end.getLong(step, RmaMessage.BEHIND);
    boolean writes = bytes != 0 || behind != 0;
    if (writes && windows.isToCome(window) || behind != 0 && isCopying(from)) {
      return false;
    }
    if (writes) {
      DeviceMemory target = targets.of(from.peer, window, offset, bytes, behind);
      if (bytes != 0) {
        copy(from, step, RmaMessage.HEADER, target.address() + offset + behind, bytes);
      }
      from.window = window;
      from.offset = offset;
      from.rest = behind;
      from.untold = behind;
      tell(from, step + 1, target);
    }
    int signals = from.end.getInt(step, RmaMessage.SIGNALS);
    from.signal = signals;
    from.signals[slot(step)] = behind == 0 ? signals : 0;
    return true;
  }

  private boolean isCopying(From from) {
    return words.loadAcquire(RmaFlags.copied(from.peer)) < from.copied;
  }

  private static int slot(long step) {
    return (int) step & (ConnectionLayout.STEPS - 1);
  }

  private void copy(From from, long step, int begin, long to, int bytes) {
    long slot = from.data + layout.simple(step);
    DriverLibrary.copyAsync(to, slot + begin, bytes, stream.handle(), gpu);
    from.copied = step + 1;
  }

  /** Takes a step of data alone, which may be in the window already. */
  private void takeData(From from, long step) {
    int bytes = (int) Math.min(slotBytes, from.rest);
    DeviceMemory target = targets.of(from.peer, from.window, from.offset, 0, from.rest);
    if (from.placed == null || !from.placed.take(step)) {
      copy(from, step, 0, target.address() + from.offset, bytes);
    }
    from.offset += bytes;
    from.rest -= bytes;
    from.untold = Math.min(from.untold, from.rest); // it may have come unasked
    from.signals[slot(step)] = from.rest == 0 ? from.signal : 0;
    tell(from, step + 1, target);
  }

  /** Tells the proxy where the data of the next steps go, the first of which is given. */
  private void tell(From from, long next, DeviceMemory target) {
    if (from.placed == null) {
      return;
    }
    long step = next + (from.rest - from.untold + slotBytes - 1) / slotBytes;
    while (from.untold > 0 && step < from.done + PlacedPuts.AHEAD) {
      int bytes = (int) Math.min(slotBytes, from.untold);
      from.placed.tell(step++, target, from.offset + from.rest - from.untold, bytes);
      from.untold -= bytes;
    }
  }

  /** Counts the signals of what is in the windows, and gives its slots back. */
  private int finish(From from) {
    long seen = words.loadAcquire(RmaFlags.copied(from.peer));
    long until = seen >= from.copied ? from.taken : seen;
    if (until <= from.done) {
      return 0;
    }
    int count = (int) (until - from.done);
    long signals = from.signalled;
    while (from.done < until) {
      signals += from.signals[(int) from.done & (ConnectionLayout.STEPS - 1)];
      from.done++;
    }
    if (signals > from.signalled) {
      from.signalled = signals;
      puts.setSignals(from.peer, signals);
    }
    from.end.setHead(until);
    arrived.set(from.peer, until);
    return count;
  }

  @Override
  public long sent(int peer) {
    return puts.sent(peer);
  }

  @Override
  public long arrived(int peer) {
    return arrived.get(peer);
  }

  @Override
  public void end() {
    stream.synchronize();
  }

  @Override
  public void close() {
    stream.close();
    puts.close();
  }
}
