package org.nccl4j.device.host.kernel.protocol;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.IntFunction;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.device.host.memory.AtomicWords;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.host.stream.Backoff;
import org.nccl4j.device.kernel.CallMismatch;
import org.nccl4j.device.kernel.Progress;
import org.nccl4j.device.support.Patience;

/**
 * Waits in kernels of one communicator for other ranks: until a word changes, the communicator is
 * aborted, or the deadline passes. Owned by the thread that runs the communicator's current kernel.
 */
public final class SpinWait {
  /** One slow look in 16 looks at the clock too: where that is a system call, it costs as much. */
  private static final int CLOCK_MASK = 15;

  private static final VarHandle WAITS_FOR;

  static {
    try {
      WAITS_FOR = MethodHandles.lookup().findVarHandle(SpinWait.class, "waitsFor", int.class);
    } catch (ReflectiveOperationException e) {
      throw new ExceptionInInitializerError(e);
    }
  }

  private final String communicator;
  private final int rank;
  private final long patienceNanos;
  private final Backoff backoff;
  private final Progress progress;
  private final SpinWait root;

  /** The waits of communicators that share this one's connections. Guarded by this. */
  private final List<SpinWait> children = new ArrayList<>();

  private long giveUpNanos;
  private int slowLooks;

  /** Tells how many launches of the current kernel's plan on the same memories follow it. */
  private LongSupplier following = () -> 0;

  /** The rank that has been waited for since a while, or -1. Read by the progress monitor. */
  private int waitsFor = -1;

  private volatile Supplier<String> explanation = () -> "";
  private volatile Supplier<String> remedy = () -> "";

  private volatile IntFunction<String> calls = peer -> "";

  /** The cause of the first failure. Written by any thread, once; read by waits. */
  private volatile NcclException failure;

  public SpinWait(
      String communicator, int rank, Duration deadline, boolean coresForAll, Progress progress) {
    this(communicator, rank, deadline, coresForAll, progress, null);
  }

  private SpinWait(
      String communicator,
      int rank,
      Duration deadline,
      boolean coresForAll,
      Progress progress,
      SpinWait root) {
    this.root = root == null ? this : root;
    this.communicator = communicator;
    this.rank = rank;
    this.patienceNanos = Patience.nanos(deadline);
    this.backoff = new Backoff(coresForAll ? Backoff.SPINS : 0);
    this.progress = progress;
  }

  /**
   * The waiter of a communicator that shares connections with this one: the failure of one is the
   * failure of all, since it leaves connections in the middle of a step.
   */
  public SpinWait child(String name, int itsRank, Duration deadline, boolean coresForAll) {
    SpinWait child = new SpinWait(name, itsRank, deadline, coresForAll, progress, root);
    synchronized (root) {
      root.children.add(child);
      child.failure = root.failure;
    }
    return child;
  }

  /** A communicator that shared is closed. */
  public void forget(SpinWait child) {
    synchronized (root) {
      root.children.remove(child);
    }
  }

  public void fail(NcclException cause) {
    synchronized (root) {
      if (root.failure == null) {
        root.failure = cause;
        root.children.forEach(child -> child.failure = cause);
      }
    }
  }

  /**
   * Sets the function that tells how many launches of the current kernel's plan on the same
   * memories follow it, as far as is known; before the first kernel.
   */
  public void know(LongSupplier launchesThatFollow) {
    following = launchesThatFollow;
  }

  /** Launches of the current kernel's plan on the same memories that follow it, as far as known. */
  @HotPath
  long following() {
    return following.getAsLong();
  }

  public int waitsFor() {
    return (int) WAITS_FOR.getOpaque(this);
  }

  /** Sets what is said of a wait past its deadline; an empty remedy stands for the general one. */
  public void explain(Supplier<String> newExplanation, Supplier<String> newRemedy) {
    remedy = newRemedy;
    explanation = newExplanation;
  }

  /**
   * Sets the function that describes the calls of this rank and of a peer, given the peer's number.
   */
  public void explainMismatches(IntFunction<String> newCalls) {
    calls = newCalls;
  }

  public NcclException failure() {
    return failure;
  }

  /** Throws if the communicator has failed. */
  @HotPath
  public void check() {
    if (failure != null) {
      throw failure.again();
    }
  }

  /** Waits until a word is greater than a value, and returns it. */
  @HotPath
  public long awaitGreater(HostMemory memory, long offset, long value, int peer, String what) {
    ByteBuffer window = memory.window(offset);
    int index = memory.index(offset);
    long now = AtomicWords.loadAcquire(window, index);
    if (now > value) {
      return now;
    }
    begin();
    do {
      idle(peer, what);
      now = AtomicWords.loadAcquire(window, index);
    } while (now <= value);
    WAITS_FOR.setOpaque(this, -1);
    return now;
  }

  /** Waits until a word is an LL128 flag; throws if what is awaited comes as of another call. */
  @HotPath
  void awaitFlag(HostMemory memory, long offset, long flag, Call call, Sender sender) {
    ByteBuffer window = memory.window(offset);
    int index = memory.index(offset);
    if (AtomicWords.loadAcquire(window, index) == flag) {
      return;
    }
    begin();
    boolean other;
    do {
      idle(sender.peer(), "data");
      other = isSlow() && sender.sentAnother(call);
      if (AtomicWords.loadAcquire(window, index) == flag) {
        WAITS_FOR.setOpaque(this, -1);
        return;
      }
    } while (!other);
    throw differs(call, sender.peer());
  }

  /** Same as {@link #awaitGreater}, but throws if the awaited data belong to another call. */
  @HotPath
  long awaitTail(HostMemory memory, long offset, long value, Call call, Sender sender) {
    ByteBuffer window = memory.window(offset);
    int index = memory.index(offset);
    long now = AtomicWords.loadAcquire(window, index);
    if (now > value) {
      return now;
    }
    begin();
    boolean other;
    do {
      idle(sender.peer(), "data");
      other = isSlow() && sender.sentAnother(call);
      now = AtomicWords.loadAcquire(window, index);
      if (now > value) {
        WAITS_FOR.setOpaque(this, -1);
        return now;
      }
    } while (!other);
    throw differs(call, sender.peer());
  }

  /** Waits for a failure whose first sign, a peer that is gone, has been seen; throws it. */
  void awaitFailure(int peer) {
    begin();
    while (true) {
      check();
      idle(peer, "data");
    }
  }

  /** True if the current wait has lasted so long that it pays to look for reasons. */
  @HotPath
  public boolean isSlow() {
    return backoff.isSlow();
  }

  /** The error of data that came from a peer and are of another call than this rank's. */
  public NcclException differs(Call call, int peer) {
    return CallMismatch.of(communicator, rank, call.toString(), peer, known(peer));
  }

  /** A clause on what this rank and a peer call, as far as records tell; may be empty. */
  public String known(int peer) {
    return calls.apply(peer);
  }

  /** Begins a wait of several looks. */
  @HotPath
  public void begin() {
    backoff.reset();
    giveUpNanos = 0;
    slowLooks = 0;
    WAITS_FOR.setOpaque(this, -1);
  }

  /** Between two looks of a wait: lets time pass, and throws when it is time to end. */
  @HotPath
  public void idle(int peer, String what) {
    if (progress.doWork() > 0) {
      check();
      backoff.reset();
      return;
    }
    backoff.idle();
    if (backoff.isSlow()) {
      check();
      if ((++slowLooks & CLOCK_MASK) == 0) {
        checkDeadline(peer, what);
      }
    }
  }

  private void checkDeadline(int peer, String what) {
    long now = System.nanoTime();
    if (giveUpNanos == 0) {
      giveUpNanos = Math.max(1, now + patienceNanos);
      WAITS_FOR.setOpaque(this, peer);
    } else if (now - giveUpNanos > 0) {
      String why = explanation.get();
      String cure = remedy.get();
      TimeoutException timeout =
          new TimeoutException(
              ErrorId.OPERATION,
              "rank %d of communicator %s has waited %s for %s of rank %d%s"
                  .formatted(
                      rank,
                      communicator,
                      Patience.text(Duration.ofNanos(patienceNanos)),
                      what,
                      peer,
                      why.isEmpty() ? "" : "; " + why),
              (cure.isEmpty() ? "" : cure + "; or ")
                  + "find out why rank %d does not make the matching call: look for an exception there"
                      .formatted(peer)
                  + "; or raise the operation timeout (CommunicatorConfig.withOperationTimeout or NCCL4J_TIMEOUT);"
                  + " NCCL_CHECK_MODE=DEBUG_GLOBAL compares the ranks' collectives");
      fail(timeout);
      throw timeout;
    }
  }
}
