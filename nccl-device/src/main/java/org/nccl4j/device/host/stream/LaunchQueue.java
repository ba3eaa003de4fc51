package org.nccl4j.device.host.stream;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.time.Duration;
import java.util.Arrays;
import java.util.function.BooleanSupplier;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.Leases;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.support.Patience;

/**
 * The launches of a stream, in order. Any thread adds; one at a time, the runner, takes. Positions
 * count up for ever. Launches in a row of one operation on the same memories, with tickets in a
 * row, are one entry of a ring: to add one more of them writes the number of launches alone.
 * Entries are reused: nothing is allocated after construction, unless the queue is told to grow.
 * Then the next launch goes to a larger ring, and once that is empty to one of the usual size.
 *
 * <p>A run has no full fence between its launches: one would hold each kernel up until the stores
 * of the kernel before have reached the other ranks. So positions are released, not volatile, and
 * who needs to know that nobody is adding looks at {@link #isQuiet()}.
 */
final class LaunchQueue {
  static final int CAPACITY = 1024;

  /** Most launches of an entry. */
  private static final int LONGEST_ENTRY = 256;

  /** Equal to no operation of a launch, nor to that of a forgotten entry. */
  private static final StreamOperation NONE = (send, recv, ticket) -> {};

  /** Launches that a thread runs which finds the queue full. */
  static final int BATCH = 64;

  /** Error of an operation whose own error cannot be shown. */
  private static final NcclException UNTOLD =
      new InternalErrorException(
          "an operation of a host stream failed with an error that cannot be shown",
          "give the JVM more memory (-Xmx); else report this");

  /** Looks at a thread that adds, which takes some nanoseconds while it has a core. */
  private static final int LOOKS = 1000;

  /** Longest wait for a thread that adds, which takes as long only if the thread is stopped. */
  private static final Duration ADDING_DEADLINE = Duration.ofSeconds(60);

  private static final VarHandle ADDING;
  private static final VarHandle RUNNING;
  private static final VarHandle ADDED;
  private static final VarHandle ENDED;
  private static final VarHandle LENDERS;
  private static final VarHandle GROWING;
  private static final VarHandle ELEMENTS = MethodHandles.arrayElementVarHandle(long[].class);

  static {
    try {
      MethodHandles.Lookup lookup = MethodHandles.lookup();
      ADDING = lookup.findVarHandle(LaunchQueue.class, "adding", int.class);
      RUNNING = lookup.findVarHandle(LaunchQueue.class, "running", int.class);
      ADDED = lookup.findVarHandle(LaunchQueue.class, "added", long.class);
      ENDED = lookup.findVarHandle(LaunchQueue.class, "ended", long.class);
      LENDERS = lookup.findVarHandle(LaunchQueue.class, "lenders", int.class);
      GROWING = lookup.findVarHandle(LaunchQueue.class, "growing", int.class);
    } catch (ReflectiveOperationException e) {
      throw new ExceptionInInitializerError(e);
    }
  }

  /**
   * Entries that are used again and again. An entry is free until the adding thread writes its
   * launches' first position, and again once the runner has gone on to the next entry.
   */
  private static final class Ring {
    private static final long FREE = Long.MAX_VALUE;

    final StreamOperation[] operations;
    final HostMemory[] sends;
    final HostMemory[] recvs;

    /** The ticket of the first launch. */
    final long[] tickets;

    /** The position of the first launch, or {@link #FREE}. */
    final long[] begins;

    /** The entry that was added last. Owner: the adding thread. */
    int last = -1;

    /** The entry of the launch that was taken last. Owner: the runner. */
    int current = -1;

    /** Written before {@link #end}. */
    Ring next;

    /** The first position that is in the next ring. Written before that position is added. */
    volatile long end = Long.MAX_VALUE;

    Ring(int capacity) {
      operations = new StreamOperation[capacity];
      sends = new HostMemory[capacity];
      recvs = new HostMemory[capacity];
      tickets = new long[capacity];
      begins = new long[capacity];
      Arrays.fill(begins, FREE);
    }

    int capacity() {
      return tickets.length;
    }

    private int after(int entry) {
      return entry + 1 & tickets.length - 1;
    }

    /**
     * True if a launch is one more of the last entry's. Of the adding thread.
     *
     * <p>All is compared, and one launch in so many begins an entry of its own: C2 so compiles code
     * for launches of both kinds. It would else leave out each comparison's other outcome, and
     * throw the code away whenever one came: each time milliseconds at a hundredth of the speed.
     */
    @HotPath
    boolean goesOn(
        long position, StreamOperation operation, HostMemory send, HostMemory recv, long ticket) {
      int entry = last;
      if (entry < 0) {
        return false;
      }
      boolean ends = (position & LONGEST_ENTRY - 1) == 0;
      return isSameObject(operations[entry], ends ? NONE : operation)
          & isSameObject(sends[entry], send)
          & isSameObject(recvs[entry], recv)
          & isSameNumber(tickets[entry] - begins[entry], ticket - position + (ends ? 1 : 0));
    }

    /** True if both are the same object. One profile for all, so that C2 knows both outcomes. */
    @HotPath
    @SuppressWarnings("ReferenceEquality")
    private static boolean isSameObject(Object one, Object other) {
      return one == other;
    }

    /** True if both are the same number; likewise. */
    @HotPath
    private static boolean isSameNumber(long one, long other) {
      return one == other;
    }

    /** Puts a launch into an entry of its own; false if none is free. Of the adding thread. */
    @HotPath
    boolean begin(
        long position, StreamOperation operation, HostMemory send, HostMemory recv, long ticket) {
      int entry = after(last);
      if ((long) ELEMENTS.getAcquire(begins, entry) != FREE) {
        return false; // the runner has ended its launches, and not gone on yet
      }
      operations[entry] = operation;
      sends[entry] = send;
      recvs[entry] = recv;
      tickets[entry] = ticket;
      begins[entry] = position;
      last = entry;
      return true;
    }

    /**
     * The entry of the launch at a position, the one after that of the last call. Of the runner.
     */
    @HotPath
    int entry(long position) {
      int next = after(current);
      if (begins[next] == position) {
        if (current >= 0) {
          clear(current);
          ELEMENTS.setRelease(begins, current, FREE);
        }
        current = next;
      }
      return current;
    }

    /** The position after an entry's last launch, as far as there is a later entry. */
    @HotPath
    long endOf(int entry) {
      return begins[after(entry)];
    }

    private void clear(int entry) {
      operations[entry] = null;
      sends[entry] = null;
      recvs[entry] = null;
    }

    /** Keeps no memory reachable. Of the adding thread, while all launches have ended. */
    void forget() {
      if (last >= 0) {
        clear(last);
      }
    }
  }

  /** Ring to which launches are added. Owner: the adding thread. */
  private Ring filling = new Ring(CAPACITY);

  /** Ring from which launches are taken: the filling ring or an earlier one. Owner: the runner. */
  private Ring emptying = filling;

  /**
   * Number of threads that asked the queue to grow. They write it, and the adding thread reads it.
   */
  private volatile int growing;

  /** 1 while a thread adds, else 0. */
  private volatile int adding;

  /** 1 while a thread runs launches, else 0. */
  private volatile int running;

  /** Launches added. Written by the adding thread after the entry; read by runner and waiters. */
  private volatile long added;

  /** Launches that have ended. Written by the runner after the run; read by all. */
  private volatile long ended;

  /** Threads that wait to be the runner. Written by them; read by the stream's own thread. */
  private volatile int lenders;

  /** The first error since it was last asked for. Written by the runner, taken by a waiter. */
  private volatile NcclException error;

  /** True if nothing more is added. Written once; read by threads that add. */
  private volatile boolean sealed;

  /** Launches added so far. */
  long added() {
    return added;
  }

  /** Launches ended so far. */
  long ended() {
    return ended;
  }

  boolean isRunning() {
    return running != 0;
  }

  /**
   * True if all has ended and nobody is adding. If so, a thread that adds later sees, once it has
   * added, every volatile word that the caller wrote before this call.
   */
  boolean isQuiet() {
    // Keep this order: an adder's launches are visible once it has left.
    return adding == 0 && ended == added;
  }

  /** From now on the queue grows where it would be full, or no longer; these are counted. */
  void grow(boolean begins) {
    GROWING.getAndAdd(this, begins ? 1 : -1);
  }

  /** Refuses launches from now on; on return nobody is adding. */
  void seal() {
    sealed = true;
    addedByAll();
  }

  /** True if it was sealed and all has ended. */
  boolean isOver() {
    return sealed && isQuiet();
  }

  /**
   * Launches added so far, also by threads that are just adding. A thread that adds later sees
   * every volatile word that the caller wrote before this call.
   */
  long addedByAll() {
    if (adding != 0) {
      awaitAdder(() -> adding == 0);
    }
    return added;
  }

  private static void awaitAdder(BooleanSupplier over) {
    for (int looks = 0; looks < LOOKS; looks++) {
      if (over.getAsBoolean()) {
        return;
      }
      Thread.onSpinWait();
    }
    // The adding thread may have no core.
    if (!Patience.until(over, ADDING_DEADLINE)) {
      throw new TimeoutException(
          "a thread has been adding a launch to a host stream for "
              + Patience.text(ADDING_DEADLINE),
          "let that thread go on: it is stopped, by a debugger for example");
    }
  }

  /**
   * Adds a launch unless the queue is full, and may not grow. Looks at the memory where {@link
   * #addedByAll} waits: either who frees sees the launch, or this sees that the memory is being
   * freed.
   *
   * @throws InvalidUsageException for memory that is over, or if the queue was sealed
   * @throws TimeoutException if another thread is stopped while it adds
   */
  @HotPath
  boolean add(StreamOperation operation, HostMemory send, HostMemory recv, long ticket) {
    if (!ADDING.compareAndSet(this, 0, 1)) {
      awaitTurnToAdd();
    }
    boolean open;
    boolean room;
    try {
      open = !sealed && isUsable(send) && isUsable(recv);
      room = open && addHere(operation, send, recv, ticket);
    } finally {
      ADDING.setRelease(this, 0);
    }
    if (!open) {
      throw refusal(send, recv);
    }
    return room;
  }

  private void awaitTurnToAdd() {
    awaitAdder(() -> ADDING.compareAndSet(this, 0, 1));
  }

  @HotPath
  private boolean addHere(
      StreamOperation operation, HostMemory send, HostMemory recv, long ticket) {
    long position = added;
    if (!hasRoom(position, position - ended)) {
      return false;
    }
    Ring ring = filling;
    if (!ring.goesOn(position, operation, send, recv, ticket)
        && !ring.begin(position, operation, send, recv, ticket)) {
      if (growing == 0) {
        return false;
      }
      goOn(position, 2 * ring.capacity());
      filling.begin(position, operation, send, recv, ticket);
    }
    ADDED.setRelease(this, position + 1);
    return true;
  }

  @HotPath
  private boolean hasRoom(long position, long pending) {
    int capacity = filling.capacity();
    if (pending >= capacity) {
      if (growing == 0) {
        return false;
      }
      goOn(position, 2 * capacity);
    } else if (pending == 0 && capacity > CAPACITY) {
      goOn(position, CAPACITY);
    }
    return true;
  }

  /** Adds to another ring from a position on. */
  private void goOn(long position, int capacity) {
    Ring before = filling;
    filling = new Ring(capacity);
    before.next = filling;
    before.end = position;
  }

  private static boolean isUsable(HostMemory memory) {
    return memory == null || !Leases.of(memory).isOver();
  }

  private NcclException refusal(HostMemory send, HostMemory recv) {
    return sealed
        ? new InvalidUsageException(
            ErrorId.CLOSED,
            "a launch into a closed stream of the host device",
            "close a stream after its last launch")
        : Leases.closed(isUsable(send) ? recv : send);
  }

  /** A thread that will call {@link #run} until it succeeds begins to wait, or its wait is over. */
  void lends(boolean begins) {
    LENDERS.getAndAdd(this, begins ? 1 : -1);
  }

  /**
   * Runs launches up to a position on the calling thread, as far as they are added.
   *
   * @return false, having done nothing, if another thread is running them
   */
  @HotPath
  boolean run(long until) {
    return run(until, false);
  }

  /**
   * Runs launches up to a position, unless a thread is lent meanwhile: that takes over after the
   * launch that is running. It would look again and again whether all has ended, and where it has
   * one core with this one, that takes up to half of the time.
   *
   * @return whether this thread has run all of them
   */
  boolean runUntilLent(long until) {
    return run(until, true) && ended >= until;
  }

  @HotPath
  private boolean run(long until, boolean givesWay) {
    if (!RUNNING.compareAndSet(this, 0, 1)) {
      return false;
    }
    try {
      long position = ended;
      long known = added;
      long end = Math.min(until, known);
      long alike = position; // launches up to there are of one entry
      while (position < end && !(givesWay && lenders > 0)) {
        while (position >= emptying.end) {
          emptying = emptying.next;
        }
        int entry = emptying.entry(position);
        if (position >= alike) {
          alike = Math.max(position + 1, Math.min(known, emptying.endOf(entry)));
        }
        try {
          runEntry(emptying, entry, position, alike - position - 1);
        } finally {
          ENDED.setRelease(this, ++position); // a failed operation counts as ended
        }
      }
    } finally {
      RUNNING.setRelease(this, 0);
    }
    return true;
  }

  @HotPath
  private void runEntry(Ring ring, int entry, long position, long following) {
    try {
      ring.operations[entry].run(
          ring.sends[entry],
          ring.recvs[entry],
          ring.tickets[entry] + (position - ring.begins[entry]),
          following);
    } catch (NcclException e) {
      fail(e);
    } catch (Throwable e) { // some languages throw checked exceptions anywhere
      fail(unexpected(e));
    }
  }

  /**
   * Keeps the memories of the last launch reachable no longer, if all has ended and nobody is
   * adding.
   */
  void forgetEnded() {
    if (ended == added && ADDING.compareAndSet(this, 0, 1)) {
      try {
        if (ended == added) {
          filling.forget();
        }
      } finally {
        ADDING.setRelease(this, 0);
      }
    }
  }

  private static NcclException unexpected(Throwable e) {
    try {
      return new InternalErrorException(
          "an operation of a host stream failed unexpectedly (" + e + ")",
          "report this with the stack trace",
          e);
    } catch (RuntimeException | Error none) {
      return UNTOLD;
    }
  }

  private void fail(NcclException e) {
    if (error == null) {
      error = e;
    }
  }

  /** The first error since the last call, or null. */
  NcclException takeError() {
    NcclException e = error;
    if (e != null) {
      error = null;
    }
    return e;
  }
}
