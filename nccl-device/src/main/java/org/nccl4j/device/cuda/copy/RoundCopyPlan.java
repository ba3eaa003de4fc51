package org.nccl4j.device.cuda.copy;

import org.nccl4j.device.cuda.plan.CudaKernelPlan;
import org.nccl4j.device.cuda.stream.GpuStream;

/**
 * Copies in rounds: in round d every rank writes to the d-th after it; between rounds all meet,
 * since copies of different GPUs that drift apart collide at the same target. The ranks meet by
 * kernels, whose waits have a deadline, and everything can be captured.
 */
public final class RoundCopyPlan extends CopyPlan {
  private final CudaKernelPlan meeting;

  public RoundCopyPlan(Move move, CudaKernelPlan meeting) {
    super(move);
    this.meeting = meeting;
  }

  @Override
  public void discard() {
    meeting.discard();
  }

  @Override
  public int blocks() {
    return meeting.blocks();
  }

  @Override
  void meet(long send, long recv, GpuStream stream, boolean captured) {
    meeting.launch(send, recv, stream);
  }

  @Override
  void copy(long send, long recv, GpuStream stream, boolean captured, int nearest) {
    boolean copies = routes().copies();
    for (int distance = nearest; distance < n(); distance++) {
      int other = at(distance);
      if (distance > 1) {
        meeting.launch(send, recv, stream);
      }
      if (copies) {
        long bytes = routes().bytes();
        copy(routes().target(recv, other), routes().source(send, other), bytes, stream.handle());
      }
    }
  }
}
