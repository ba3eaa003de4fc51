package org.nccl4j.device.host.stream;

import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.locks.LockSupport;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.support.DaemonThread;
import org.nccl4j.device.support.Patience;

/**
 * Looks, while there are launches, for streams whose launches nobody runs, and has a thread run
 * them; and frees what was closed while launches could still use it. One daemon thread, which
 * sleeps until {@link #wake} when all streams have been empty for a while, and ends when there are
 * none.
 */
public final class Dispatcher {
  private static final long PERIOD_NANOS = 500_000;
  private static final int EMPTY_ROUNDS = 100;

  /** Looks after which idle streams forget the memories of their last launches. */
  private static final int FORGETTING_ROUNDS = 128;

  private record Look(HostStream stream, long ended) {}

  private final List<FreeAfter> later = new CopyOnWriteArrayList<>();
  private final List<HostStream> streams = new CopyOnWriteArrayList<>();
  private volatile boolean asleep = true;
  private Thread thread;

  /** A dispatcher without streams; its thread starts with the first launch. */
  public Dispatcher() {}

  void add(HostStream stream) {
    streams.add(stream);
  }

  void remove(HostStream stream) {
    streams.remove(stream);
    if (streams.isEmpty()) {
      unpark();
    }
  }

  private synchronized void unpark() {
    LockSupport.unpark(thread); // which may be null
  }

  /**
   * Frees what nobody can launch with any more: at once, or once all that was launched so far into
   * any stream has ended.
   */
  public void free(Runnable release) {
    freeDue();
    FreeAfter after = FreeAfter.of(release, streams);
    if (after.isDue()) {
      release.run();
    } else {
      later.add(after);
      if (asleep) {
        wake();
      }
    }
  }

  private void freeDue() {
    for (FreeAfter after : later) {
      if (after.isDue() && later.remove(after)) {
        after.free();
      }
    }
  }

  /** True if it is to be woken after a launch. */
  @HotPath
  boolean isAsleep() {
    return asleep;
  }

  /** Has it look for launches. */
  synchronized void wake() {
    asleep = false;
    if (thread == null) {
      start();
    } else {
      LockSupport.unpark(thread);
    }
  }

  /** Without a thread it sleeps, so that a later launch tries again. */
  private void start() {
    Thread made = DaemonThread.of(this::watch, "nccl4j-dispatcher");
    thread = made;
    boolean started = false;
    try {
      made.start();
      started = true;
    } finally {
      if (!started) {
        thread = null;
        asleep = true;
      }
    }
  }

  /** Ends the thread unless there is a stream or a launch; the next launch starts another. */
  private synchronized boolean endsUnused() {
    if (!asleep || !later.isEmpty() || !streams.isEmpty()) {
      return false;
    }
    thread = null;
    return true;
  }

  private void watch() {
    int empty = 0;
    for (int round = 1; ; round++) {
      try {
        empty = look() ? 0 : empty + 1;
        if (round % FORGETTING_ROUNDS == 0) {
          streams.forEach(HostStream::forgetEnded);
        }
        if (empty > EMPTY_ROUNDS) {
          if (!sleep()) {
            return;
          }
          empty = 0;
        }
      } catch (Throwable e) { // for lack of memory, perhaps: this thread serves all streams
        Patience.parkOwn(this, PERIOD_NANOS);
      }
    }
  }

  /** Starts the streams that do not move on for a period; false if all were empty throughout. */
  private boolean look() {
    List<Look> waiting =
        streams.stream()
            .filter(stream -> stream.ended() != stream.launched())
            .map(stream -> new Look(stream, stream.ended()))
            .toList();
    Patience.parkOwn(this, PERIOD_NANOS);
    for (Look look : waiting) {
      if (look.stream.isAbandoned(look.ended)) {
        look.stream.startAbandoned();
      }
    }
    streams.forEach(HostStream::retireIfOver);
    freeDue();
    return !waiting.isEmpty();
  }

  /** Sleeps until there is a launch; false if the thread shall end. */
  private boolean sleep() {
    streams.forEach(HostStream::forgetEnded);
    asleep = true;
    // A launch that missed the flag is found here: it was being added before it looked.
    while (asleep && later.isEmpty() && streams.stream().allMatch(HostStream::isQuiet)) {
      if (endsUnused()) {
        return false;
      }
      Patience.parkOwn(this);
    }
    asleep = false;
    return true;
  }
}
