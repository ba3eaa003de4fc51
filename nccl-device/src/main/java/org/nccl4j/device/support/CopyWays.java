package org.nccl4j.device.support;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicIntegerArray;
import org.nccl4j.device.HotPath;

/**
 * The ways of copying that connections of the host device have measured to be the fastest, by kind
 * of copy and class of sizes. Later connections begin with them, and so do later processes of the
 * machine, for which a store keeps them. Any thread.
 */
public final class CopyWays {
  /** The least bytes of each class of sizes. */
  public static final List<Integer> SIZES = List.of(2 << 10, 8 << 10, 32 << 10);

  /** The least time between two writes while communicators exist. */
  static final long KEEP_NANOS = 60_000_000_000L;

  private static final CopyWays OF_PROCESS = new CopyWays();

  /** The number of no way. */
  public static final int UNKNOWN = -1;

  private final AtomicIntegerArray ways =
      new AtomicIntegerArray(Kind.values().length * SIZES.size());

  /** Null before the first communicator, and where nothing is kept. */
  private volatile Store store;

  /** True once the store was asked; guarded by this object. */
  private boolean asked;

  /** The lines that the store has; guarded by this object. */
  private List<String> stored = List.of();

  /** The time of the last write; guarded by this object. */
  private long keptNanos;

  /** Ways that are not known. */
  public CopyWays() {
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
    /** For a reader that finds the outcome in the caches. */
    KEPT,
    /** Its outcome leaves the caches before anybody reads it. */
    LEAVING
  }

  /** A way of copying. */
  public enum Way {
    JVM,
    LIBRARY,
    STREAMING;

    private static final Way[] ALL = values();
  }

  /** Keeps the ways of a machine for later processes. Any thread. */
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
   * while there are communicators, by a thread that runs none of their kernels.
   */
  public synchronized void look(long nowNanos) {
    if (store == null) {
      return;
    }
    if (!asked) {
      asked = true;
      keptNanos = nowNanos;
      know(store.find());
    } else if (nowNanos - keptNanos >= KEEP_NANOS) {
      keptNanos = nowNanos;
      keep();
    }
  }

  /** Has the store keep what has changed; a communicator is closed. */
  public synchronized void keep() {
    List<String> lines = lines();
    if (store != null && !lines.equals(stored)) {
      if (!asked) {
        asked = true;
        know(store.find());
        lines = lines();
      }
      if (!lines.equals(stored)) {
        stored = lines;
        store.keep(lines);
      }
    }
  }

  /** Takes ways that were kept, where none is known yet. Lines that have none are left out. */
  private void know(List<String> lines) {
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
