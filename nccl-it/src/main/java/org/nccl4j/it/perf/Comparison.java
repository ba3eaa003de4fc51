package org.nccl4j.it.perf;

/**
 * The library to compare with.
 *
 * @param file libnccl's file, for {@link With#LIBNCCL}; else empty
 */
record Comparison(With with, String file) {
  static final Comparison NONE = new Comparison(With.NOTHING, "");

  /** The kinds of libraries to compare with. */
  enum With {
    /** Nothing. */
    NOTHING,
    /** The installed Open MPI. */
    MPI,
    /** The installed libnccl. */
    LIBNCCL
  }
}
