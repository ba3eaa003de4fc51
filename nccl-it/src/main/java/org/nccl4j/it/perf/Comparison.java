package org.nccl4j.it.perf;

import org.nccl4j.device.DataType;

/**
 * The library to compare with.
 *
 * @param file libnccl's file, for {@link With#LIBNCCL}; else empty
 * @param format of the codes, for {@link With#QUANTISED}; else null
 * @param block elements of a scale, likewise; else 0
 */
record Comparison(With with, String file, DataType format, int block) {
  static final Comparison NONE = new Comparison(With.NOTHING, "");

  Comparison(With with, String file) {
    this(with, file, null, 0);
  }

  /** The kinds of libraries to compare with. */
  enum With {
    /** Nothing. */
    NOTHING,
    /** The installed Open MPI. */
    MPI,
    /** The installed libnccl. */
    LIBNCCL,
    /** Our operations with data that travel quantised. */
    QUANTISED
  }
}
