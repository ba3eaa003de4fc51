package org.nccl4j.device.cuda;

import org.nccl4j.device.kernel.DirectWork;
import org.nccl4j.device.symmetric.SymmetricSpace;

/**
 * An operation that only moves data, by copy engines. In round d every rank writes to the d-th
 * after it; between rounds all meet, since copies of different GPUs that drift apart collide at the
 * same target. The ranks meet by kernels, whose waits have a deadline, and everything can be
 * captured.
 */
final class CopyPlan implements CudaPlan {
  private final CudaKernelCommunicator owner;
  private final CopyRoutes routes;
  private final CudaKernelPlan meeting;
  private final CudaKernelPlan.Needs needs;
  private final int n;
  private final int rank;

  CopyPlan(
      CudaKernelCommunicator owner,
      DirectWork work,
      SymmetricSpace space,
      CudaKernelPlan meeting,
      CudaKernelPlan.Needs needs) {
    this.owner = owner;
    this.routes = new CopyRoutes(work, space);
    this.meeting = meeting;
    this.needs = needs;
    this.n = space.size();
    this.rank = space.place();
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
    meeting.launch(0, 0, stream);
    boolean copies = routes.copies();
    for (int distance = 0; distance < n; distance++) {
      int other = (rank + distance) % n;
      if (distance > 1) {
        meeting.launch(0, 0, stream);
      }
      if (copies) {
        copy(routes.target(recv, other), routes.source(send, other), stream);
      }
    }
    meeting.launch(0, 0, stream);
  }

  private void copy(long target, long source, CudaStream stream) {
    if (target != source) {
      DriverLibrary.copyAsync(target, source, routes.bytes(), stream.handle(), owner.device());
    }
  }
}
