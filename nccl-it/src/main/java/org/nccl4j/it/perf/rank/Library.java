package org.nccl4j.it.perf.rank;

/** The library whose operations are measured. */
public enum Library {
  /** Ours. */
  OURS("nccl4j"),
  /** The installed libnccl, as a user gets it. */
  LIBNCCL("libnccl"),
  /** The installed libnccl with the buffers registered as symmetric windows. */
  LIBNCCL_WINDOWS("libnccl with windows"),
  /** Ours, with data that travel quantised. */
  QUANTISED("quantised");

  private final String label;

  Library(String label) {
    this.label = label;
  }

  /** True if its operations are those of our communicators. */
  public boolean isOurs() {
    return this == OURS || this == QUANTISED;
  }

  /** Returns the library's name for tables. */
  public String label() {
    return label;
  }
}
