package org.nccl4j.it.path;

import java.util.ArrayList;
import java.util.List;

/** The methods that one thread enters between two marks, in the order of their first entry. */
public final class Entries {
  private static final List<String> FOUND = new ArrayList<>();
  private static volatile Thread watched;

  private Entries() {}

  /** Records an entry of the watched thread. Traced classes call it. */
  public static void enter(String method) {
    if (Thread.currentThread() == watched && !FOUND.contains(method)) {
      FOUND.add(method);
    }
  }

  /** Watches the calling thread from now on, and forgets what was found. */
  public static void begin() {
    FOUND.clear();
    watched = Thread.currentThread();
  }

  /** Ends watching; returns what was found. */
  public static List<String> end() {
    watched = null;
    return List.copyOf(FOUND);
  }
}
