package org.nccl4j.device.cuda.rma;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicLongArray;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.cuda.driver.DriverLibrary;
import org.nccl4j.device.cuda.driver.Gpu;
import org.nccl4j.device.cuda.stream.GpuStream;
import org.nccl4j.device.kernel.Connection;
import org.nccl4j.device.kernel.ConnectionLayout;
import org.nccl4j.device.kernel.KernelCommunicatorSpec;
import org.nccl4j.device.kernel.RmaMessage;
import org.nccl4j.device.kernel.RmaSpace;

/**
 * Puts the messages of other ranks' {@link RmaSender} into this rank's windows, by copies in a
 * stream of its own, and tells the user's streams of their signals once the copies before are done.
 * Owned by the thread that gives the communicator's proxy its turn.
 */
public final class RmaReceiver implements RmaSpace.Arrivals, AutoCloseable {
  private final Gpu gpu;
  private final ConnectionLayout layout;
  private final RmaSpace.Windows windows;
  private final RmaSender puts;
  private final RmaFlags words;
  private final GpuStream stream;
  private final RmaSpace.Targets targets;
  private final List<From> froms = new ArrayList<>();
  private final AtomicLongArray arrived;

  /** One rank's messages. */
  private final class From {
    private final int peer;
    private final long data;
    private final HostVisibleEnd end;

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
      end = new HostVisibleEnd(gpu, connection, layout);
    }
  }

  public RmaReceiver(Gpu gpu, KernelCommunicatorSpec spec, RmaSpace space) {
    this.gpu = gpu;
    this.layout = spec.layout();
    this.windows = space.windows();
    long room = layout.simpleSlotBytes() / ConnectionLayout.CHANNELS - RmaMessage.HEADER;
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

  /** Begins what a message says; no if its window is not registered here yet. */
  private boolean take(From from, long step) {
    long window = from.end.getLong(step, 0);
    long offset = from.end.getLong(step, RmaMessage.OFFSET);
    int bytes = from.end.getInt(step, RmaMessage.BYTES);
    if (bytes != 0 && windows.isToCome(window)) {
      return false;
    }
    if (bytes != 0) {
      long to = targets.of(from.peer, window, offset, bytes).address() + offset;
      long slot = from.data + layout.simple(step);
      DriverLibrary.copyAsync(to, slot + RmaMessage.HEADER, bytes, stream.handle(), gpu);
      from.copied = step + 1;
    }
    int slot = (int) step & (ConnectionLayout.STEPS - 1);
    from.signals[slot] = from.end.getInt(step, RmaMessage.SIGNALS);
    return true;
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
