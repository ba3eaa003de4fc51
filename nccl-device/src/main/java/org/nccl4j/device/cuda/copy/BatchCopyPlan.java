package org.nccl4j.device.cuda.copy;

import org.nccl4j.device.cuda.driver.CopyBatch;
import org.nccl4j.device.cuda.driver.CudaLibrary;
import org.nccl4j.device.cuda.driver.DriverLibrary;
import org.nccl4j.device.cuda.stream.GpuStream;

/**
 * Copies that the copy engines get all in one call, and share out: CopyEngineBatch, the fastest for
 * large all-gathers among 8 H200, and CopyEngineStream. The ranks meet before and after. While the
 * stream is captured, in the legacy default stream and on drivers that take no batches the same
 * copies are given one by one, so that ranks need not agree on it.
 */
public final class BatchCopyPlan extends CopyPlan {
  private static final long LEGACY = 1; // CU_STREAM_LEGACY

  private final Meeting meeting;
  private final int driver;
  private final boolean batches;
  private final CopyBatch batch;

  /** The barrier of the ranks. */
  public interface Meeting {
    /** Puts it into a stream. */
    void launch(long send, long recv, GpuStream stream, boolean captured);

    /** No more are launched for one plan. */
    default void discard() {}

    /** Blocks of its kernel, if it has one. */
    default int blocks() {
      return 0;
    }
  }

  public BatchCopyPlan(Move move, Meeting meeting) {
    super(move);
    this.meeting = meeting;
    this.driver = CudaLibrary.driverVersion();
    this.batches = DriverLibrary.batchAbsence().isEmpty();
    this.batch = new CopyBatch(n(), owner().offheap());
  }

  @Override
  public void discard() {
    meeting.discard();
    batch.discard();
  }

  @Override
  public int blocks() {
    return meeting.blocks();
  }

  @Override
  void meet(long send, long recv, GpuStream stream, boolean captured) {
    meeting.launch(send, recv, stream, captured);
  }

  @Override
  void copy(long send, long recv, GpuStream stream, boolean captured, int nearest) {
    fill(send, recv, nearest);
    if (batch.count() > 0) {
      copy(stream, captured);
    }
  }

  private void fill(long send, long recv, int nearest) {
    batch.clear();
    boolean copies = routes().copies();
    for (int distance = nearest; copies && distance < n(); distance++) {
      int other = at(distance);
      long target = routes().target(recv, other);
      long source = routes().source(send, other);
      if (target != source) {
        batch.add(target, source, routes().bytes());
      }
    }
  }

  private void copy(GpuStream stream, boolean captured) {
    if (batches && !captured && stream.handle() != 0 && stream.handle() != LEGACY) {
      DriverLibrary.copyBatchAsync(batch, driver, stream.handle(), owner().gpu());
      return;
    }
    for (int copy = 0; copy < batch.count(); copy++) {
      copy(batch.target(copy), batch.source(copy), batch.size(copy), stream.handle());
    }
  }
}
