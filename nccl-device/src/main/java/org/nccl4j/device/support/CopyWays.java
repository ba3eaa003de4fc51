package org.nccl4j.device.support;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicIntegerArray;
import org.nccl4j.device.HotPath;

/**
 * The ways of copying that connections of the host device have measured to be the fastest, by kind
 * of copy and class of sizes. Later connections begin with them, and so do later processes of the
 * machine, for which a store keeps them. A store may hang, so a short-lived thread calls it. Any
 * thread.
 */
public final class CopyWays {
  /** The least bytes of each class of sizes. */
  public static final List<Integer> SIZES = List.of(2 << 10, 8 << 10, 32 << 10, 256 << 10);

  /** The least time between two writes while communicators exist. */
  static final long KEEP_NANOS = 60_000_000_000L;

  /** A process that ends after its last close may have this time for the write. */
  private static final long WAIT_NANOS = 200_000_000;

  private static final CopyWays OF_PROCESS = new CopyWays();

  /** The number of no way. */
  public static final int UNKNOWN = -1;

  private final AtomicIntegerArray ways =
      new AtomicIntegerArray(Kind.values().length * SIZES.size());

  /** Null before the first communicator, and where nothing is kept. */
  private volatile Store store;

  /** Runs the store's calls, one at a time. */
  private final Executor worker;

  /** True once the store was asked; written by the worker. */
  private volatile boolean asked;

  /** The lines that the store has; guarded by this object, as all below. */
  private List<String> stored = List.of();

  /** The time of the last call of the store. */
  private long keptNanos;

  /** True while the store is called. */
  private boolean works;

  /** True if a communicator was closed meanwhile. */
  private boolean again;

  /** True if a close has waited in vain for the calls that go on. */
  private boolean hangs;

  /** Ways that are not known. */
  public CopyWays() {
    this(body -> DaemonThread.of(body, "nccl4j-copy-ways").start());
  }

  /**
   * Ways that are not known.
   *
   * @param worker runs the store's calls
   */
  CopyWays(Executor worker) {
    this.worker = worker;
    for (int w = 0; w < ways.length(); w++) {
      ways.set(w, UNKNOWN);
    }
  }

  /** Those of this process. */
  public static CopyWays ofProcess() {
    return OF_PROCESS;
  }

  /** The purpose of a copy. */
  public enum Kind {
    /** Into slots, whose lines lie in the reader's cache. */
    SLOTS,
    /** Out of slots and senders' buffers, for a reader that finds the outcome in the caches. */
    KEPT,
    /** The same where the outcome leaves the caches before anybody reads it. */
    LEAVING,
    /** Between buffers of a rank, for a reader that finds the outcome in the caches. */
    OWN,
    /** The same where the outcome leaves the caches before anybody reads it. */
    OWN_LEAVING,
    /** From a piece of scratch memory to a buffer of the rank, and out of the caches. */
    SUMS,
    /** From or to a buffer of a peer, for a reader that finds the outcome in the caches. */
    PEERS,
    /** The same where the outcome leaves the caches before anybody reads it. */
    PEERS_LEAVING,
    /** From a piece of scratch memory to a buffer of a peer, and out of the caches. */
    PEERS_SUMS
  }

  /** A way of copying. */
  public enum Way {
    JVM,
    LIBRARY,
    STREAMING;

    private static final Way[] ALL = values();
  }

  /** Keeps the ways of a machine for later processes. One thread at a time. */
  public interface Store {
    /** The lines that an earlier process has kept; empty if there are none for this machine. */
    List<String> find();

    /** Keeps lines; one that cannot keep them logs the reason. */
    void keep(List<String> lines);
  }

  /** Sets the store; the first one of a process counts. */
  public void keepIn(Store its) {
    if (store == null) {
      store = its;
    }
  }

  /** The number of the way for a class of sizes; {@link #UNKNOWN} if none is known. */
  @HotPath
  public int number(Kind kind, int sizes) {
    return ways.get(place(kind, sizes));
  }

  /** The way for a class of sizes; empty if none is known. */
  public Optional<Way> way(Kind kind, int sizes) {
    int way = number(kind, sizes);
    return way == UNKNOWN ? Optional.empty() : Optional.of(Way.ALL[way]);
  }

  /** Takes a way that a connection has chosen. */
  @HotPath
  public void choose(Kind kind, int sizes, Way way) {
    ways.setOpaque(place(kind, sizes), way.ordinal());
  }

  private static int place(Kind kind, int sizes) {
    return kind.ordinal() * SIZES.size() + sizes;
  }

  /**
   * Asks the store once, and has it keep what has changed, at most once a minute. Called repeatedly
   * while there are communicators; does not wait for the store.
   */
  public void look(long nowNanos) {
    synchronized (this) {
      boolean due = !asked || nowNanos - keptNanos >= KEEP_NANOS;
      if (store == null || works || !due) {
        return;
      }
      keptNanos = nowNanos;
      works = true;
    }
    run(asked);
  }

  /**
   * Has the store keep what has changed; a communicator is closed. Waits for the store a short time
   * at most, and not at all where an earlier close has waited in vain.
   */
  public void keep() {
    boolean begins;
    synchronized (this) {
      if (store == null || lines().equals(stored)) {
        return;
      }
      again = works;
      begins = !works;
      works = true;
    }
    if (begins) {
      run(/* keeps= */ true);
    }
    await();
  }

  private void run(boolean keeps) {
    try {
      worker.execute(() -> work(keeps));
    } catch (OutOfMemoryError e) {
      isDone(); // the system has no room for a thread: a later look tries again
    }
  }

  /** The store's calls, which may hang, as the folder of a server that does not answer. */
  private void work(boolean keeps) {
    boolean ended = false;
    try {
      if (!asked) {
        asked = true;
        know(store.find());
      }
      boolean now = keeps;
      do {
        List<String> lines = now ? changed() : List.of();
        if (!lines.isEmpty()) {
          store.keep(lines);
        }
        now = true;
      } while (goesOn());
      ended = true;
    } finally {
      if (!ended) {
        isDone();
      }
    }
  }

  /** The lines that the store does not have, which it has from now on; empty for none. */
  private synchronized List<String> changed() {
    List<String> lines = lines();
    if (lines.equals(stored)) {
      return List.of();
    }
    stored = lines;
    return lines;
  }

  /** True if a communicator was closed meanwhile; else the calls have ended. */
  private synchronized boolean goesOn() {
    boolean more = again;
    if (more) {
      again = false;
    } else {
      isDone();
    }
    return more;
  }

  private synchronized void isDone() {
    works = false;
    hangs = false;
    again = false;
    notifyAll();
  }

  /** Waits until the store's calls have ended. An interruption ends it, and is kept. */
  private synchronized void await() {
    long end = System.nanoTime() + WAIT_NANOS;
    long left = WAIT_NANOS;
    try {
      while (works && !hangs && left > 0) {
        TimeUnit.NANOSECONDS.timedWait(this, left);
        left = end - System.nanoTime();
      }
      hangs = works;
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  /** Takes ways that were kept, where none is known yet. Lines that have none are left out. */
  private synchronized void know(List<String> lines) {
    CopyWays kept = new CopyWays();
    lines.forEach(kept::read);
    stored = kept.lines();
    for (int w = 0; w < ways.length(); w++) {
      ways.compareAndSet(w, UNKNOWN, kept.ways.get(w));
    }
  }

  private void read(String line) {
    String[] words = line.split(" ");
    for (Kind kind : Kind.values()) {
      for (int word = 1; word < words.length && words[0].equals(label(kind)); word++) {
        read(kind, words[word]);
      }
    }
  }

  private void read(Kind kind, String word) {
    for (int s = 0; s < SIZES.size(); s++) {
      for (Way way : Way.ALL) {
        if (word.equals(SIZES.get(s) + ":" + label(way))) {
          choose(kind, s, way);
        }
      }
    }
  }

  /** A line for each kind with known ways: the kind, then bytes:way for each class of sizes. */
  public List<String> lines() {
    List<String> lines = new ArrayList<>();
    for (Kind kind : Kind.values()) {
      StringBuilder line = new StringBuilder(label(kind));
      for (int s = 0; s < SIZES.size(); s++) {
        int sizes = s;
        way(kind, s)
            .ifPresent(
                way -> line.append(' ').append(SIZES.get(sizes)).append(':').append(label(way)));
      }
      if (line.indexOf(" ") >= 0) {
        lines.add(line.toString());
      }
    }
    return lines;
  }

  private static String label(Enum<?> each) {
    return each.name().toLowerCase(Locale.ROOT);
  }

  @Override
  public String toString() {
    return String.join(", ", lines());
  }
}
