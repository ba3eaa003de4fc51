package org.nccl4j.it.perf.peer;

import java.util.HashSet;
import java.util.Set;
import org.nccl4j.it.perf.nccl.Libnccl;
import org.nccl4j.it.perf.rank.Library;
import org.nccl4j.it.perf.workload.Cell;

/** libnccl in the ranks' own threads, on their own buffers and streams. */
public final class NcclPeer implements Peer {
  private final Library library;
  private final String version;
  private final Timing timing;
  private final Set<Cell> warm = new HashSet<>();

  /**
   * A way to use libnccl.
   *
   * @param library with or without windows
   * @param version of libnccl
   */
  public NcclPeer(Library library, String version, Timing timing) {
    this.library = library;
    this.version = version;
    this.timing = timing;
  }

  /** Has the ranks time a cell. */
  @FunctionalInterface
  public interface Timing {
    /** Microseconds an operation. */
    double micros(Cell cell, int warmup, int iterations, Library library);
  }

  @Override
  public String name() {
    return Library.LIBNCCL.label();
  }

  @Override
  public String version() {
    return library == Library.LIBNCCL_WINDOWS ? version + " with windows" : version;
  }

  @Override
  public boolean resembles(Cell cell) {
    return !cell.inPlace() && Libnccl.has(cell);
  }

  @Override
  public double micros(Cell cell, int warmup, int iterations) {
    if (warm.add(cell)) {
      timing.micros(cell, 1, Math.min(iterations, 20), library);
    }
    return timing.micros(cell, warmup, iterations, library);
  }

  @Override
  public void close() {}
}
