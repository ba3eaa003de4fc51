package org.nccl4j.device.host.kernel;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.host.kernel.protocol.ConnectionTable;
import org.nccl4j.device.host.kernel.protocol.Kernel;
import org.nccl4j.device.host.kernel.protocol.SpinWait;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.host.stream.Backoff;
import org.nccl4j.device.host.stream.StreamOperation;
import org.nccl4j.device.kernel.KernelPlan;
import org.nccl4j.device.kernel.Progress;

/**
 * Runs the kernels of communicators that share connections one at a time in the order of their
 * tickets, whatever streams they are in, since they share connections. After a failure every
 * further kernel fails at once. The turn passes a kernel only when it has ended, after a failure
 * too: the connections' memory is freed by it.
 */
final class KernelSerializer {
  private static final VarHandle TURN;
  private static final VarHandle OTHERS;

  static {
    try {
      MethodHandles.Lookup lookup = MethodHandles.lookup();
      TURN = lookup.findVarHandle(KernelSerializer.class, "turn", long.class);
      OTHERS = lookup.findVarHandle(KernelSerializer.class, "others", long.class);
    } catch (ReflectiveOperationException e) {
      throw new ExceptionInInitializerError(e);
    }
  }

  private final SpinWait waiter;
  private final Progress progress;

  /**
   * The ticket whose turn it is: all kernels before have ended. Written by the thread that ran the
   * one before, or for one that did not run by {@link #passUnused}; read by all.
   */
  private volatile long turn;

  /** Tickets that failed before their turn, and with them whose they are. */
  private final Map<Long, ConnectionTable> unused = new ConcurrentHashMap<>();

  /** The owner of the connections; other ends share them. */
  private final ConnectionTable first;

  /** The sharer whose steps the connections hold. Owned by the thread whose turn it is. */
  private ConnectionTable current;

  /**
   * Kernels of all other ends that have ended. Written by the thread whose turn it is, before the
   * turn; read by the progress monitor.
   */
  private long others;

  /**
   * Launches of the current kernel's plan on the same memories that follow it, as far as is known.
   * Owned by the thread whose turn it is.
   */
  private long following;

  KernelSerializer(SpinWait waiter, Progress progress, ConnectionTable first) {
    this.waiter = waiter;
    this.progress = progress;
    this.first = first;
    this.current = first;
  }

  /** A prepared kernel, which runs when it is its communicator's turn. */
  static final class Plan implements KernelPlan, StreamOperation {
    private final KernelSerializer turns;
    private final ConnectionTable ends;
    private final Kernel kernel;

    Plan(KernelSerializer turns, ConnectionTable ends, Kernel kernel) {
      this.turns = turns;
      this.ends = ends;
      this.kernel = kernel;
    }

    @Override
    @HotPath
    public void run(HostMemory send, HostMemory recv, long ticket) {
      run(send, recv, ticket, 0);
    }

    @Override
    @HotPath
    public void run(HostMemory send, HostMemory recv, long ticket, long following) {
      turns.run(kernel, ends, send, recv, ticket, following);
    }
  }

  @HotPath
  void run(
      Kernel kernel,
      ConnectionTable ends,
      HostMemory send,
      HostMemory recv,
      long ticket,
      long nextAlike) {
    if (turn != ticket && !awaitTurn(ticket)) {
      leaveUnused(ticket, ends);
      waiter.check();
    }
    try {
      waiter.check();
      if (ends != current) {
        ends.takeOver(current);
        current = ends;
      } else if (ends.areFresh()) {
        ends.useFresh();
      }
      following = nextAlike;
      kernel.run(send, recv);
      ends.settle(waiter);
    } catch (NcclException e) {
      waiter.fail(e);
      ends.revoke(progress);
      throw e;
    } catch (Throwable e) { // some languages throw checked exceptions anywhere
      InternalErrorException internal =
          new InternalErrorException(
              "a kernel of the host device failed unexpectedly (" + e + ")",
              "report this with the stack trace",
              e);
      waiter.fail(internal);
      ends.revoke(progress);
      throw internal;
    } finally {
      try {
        progress.kernelEnded();
      } finally {
        end(ends); // the last: memory that the lines before touch may be freed from here on
      }
    }
  }

  /**
   * Launches of the current kernel's plan on the same memories that follow it, as far as is known.
   * Of the current kernel.
   */
  @HotPath
  long following() {
    return following;
  }

  /** Leaves the turn of a ticket that has failed before to the thread that ends it. */
  private void leaveUnused(long ticket, ConnectionTable ends) {
    unused.put(ticket, ends);
    passUnused();
  }

  @HotPath
  private void end(ConnectionTable ends) {
    if (ends != first) {
      ends.countEnded();
      OTHERS.setOpaque(this, others + 1);
    }
    TURN.setRelease(this, turn + 1);
  }

  /**
   * Ends the turns of tickets that failed before. Threads that wait or look do so, since the thread
   * that ends a turn does not know of tickets that fail meanwhile.
   */
  private synchronized void passUnused() {
    for (ConnectionTable ends = unused.remove(turn); ends != null; ends = unused.remove(turn)) {
      end(ends);
    }
  }

  /**
   * Kernels on some ends that have ended, at least. The first ends' are not counted, since all
   * kernels are counted by the turns.
   */
  long ended(ConnectionTable ends) {
    if (!unused.isEmpty()) {
      passUnused();
    }
    if (ends != first) {
      return ends.ended();
    }
    long all = turn; // before the others: of those that end meanwhile none counts as the first's
    return all - (long) OTHERS.getOpaque(this);
  }

  /** True if all kernels of lower tickets have ended. */
  boolean reached(long ticket) {
    if (!unused.isEmpty()) {
      passUnused();
    }
    return turn >= ticket;
  }

  /**
   * Bounded by the deadlines of the kernels before.
   *
   * @return false if there is a failure before its turn
   */
  private boolean awaitTurn(long ticket) {
    Backoff backoff = new Backoff(0);
    while (turn < ticket) {
      if (waiter.failure() != null) {
        return false;
      }
      backoff.idle();
    }
    return true;
  }
}
