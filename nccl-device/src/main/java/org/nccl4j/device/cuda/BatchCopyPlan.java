package org.nccl4j.device.cuda;

import org.nccl4j.device.kernel.DirectWork;
import org.nccl4j.device.symmetric.SymmetricSpace;

/**
 * An operation that only moves data, by copy engines that get all copies of a rank in one call and
 * share them out. The ranks meet before and after. While the stream is captured, in the legacy
 * default stream and on drivers that take no batches the same copies are given one by one, so that
 * ranks need not agree on it.
 */
final class BatchCopyPlan implements CudaPlan {
  private static final long LEGACY = 1; // CU_STREAM_LEGACY

  private final CudaKernelCommunicator owner;
  private final CopyRoutes routes;
  private final Meeting meeting;
  private final CudaKernelPlan.Needs needs;
  private final int n;
  private final int rank;
  private final int driver;
  private final boolean batches;
  private final CopyBatch batch;
  private final int[] capturing = new int[1];

  /** How the ranks meet. */
  interface Meeting {
    /** Puts it into a stream. */
    void launch(CudaStream stream, boolean captured);
  }

  BatchCopyPlan(
      CudaKernelCommunicator owner,
      DirectWork work,
      SymmetricSpace space,
      Meeting meeting,
      CudaKernelPlan.Needs needs) {
    this.owner = owner;
    this.routes = new CopyRoutes(work, space);
    this.meeting = meeting;
    this.needs = needs;
    this.n = space.size();
    this.rank = space.place();
    this.driver = JCudaLibrary.driverVersion();
    this.batches = DriverLibrary.batchAbsence().isEmpty();
    this.batch = new CopyBatch(n);
  }

  @Override
  public CudaKernelCommunicator owner() {
    return owner;
  }

  @Override
  public boolean isEmpty() {
    return routes.bytes() == 0;
  }

  @Override
  public long sendBytes() {
    return needs.sendBytes();
  }

  @Override
  public long recvBytes() {
    return needs.recvBytes();
  }

  @Override
  public void launch(long send, long recv, CudaStream stream) {
    boolean captured = JCudaLibrary.isCapturing(stream.stream(), capturing, owner.device());
    meeting.launch(stream, captured);
    fill(send, recv);
    if (batch.count() > 0) {
      copy(stream, captured);
    }
    meeting.launch(stream, captured);
  }

  private void fill(long send, long recv) {
    batch.clear();
    boolean copies = routes.copies();
    for (int distance = 0; copies && distance < n; distance++) {
      int other = (rank + distance) % n;
      long target = routes.target(recv, other);
      long source = routes.source(send, other);
      if (target != source) {
        batch.add(target, source, routes.bytes());
      }
    }
  }

  private void copy(CudaStream stream, boolean captured) {
    if (batches && !captured && stream.handle() != 0 && stream.handle() != LEGACY) {
      DriverLibrary.copyBatchAsync(batch, driver, stream.handle(), owner.device());
      return;
    }
    for (int copy = 0; copy < batch.count(); copy++) {
      DriverLibrary.copyAsync(
          batch.target(copy),
          batch.source(copy),
          batch.size(copy),
          stream.handle(),
          owner.device());
    }
  }
}
