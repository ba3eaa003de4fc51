package org.nccl4j.device.cuda.rma;

import java.util.function.Function;
import org.nccl4j.device.cuda.plan.CudaPlan;
import org.nccl4j.device.cuda.plan.PlanContext;
import org.nccl4j.device.cuda.stream.GpuStream;
import org.nccl4j.device.kernel.OneSidedWork;

/**
 * A put to, a signal of, or a wait for ranks outside the team.
 *
 * @param ofTeam the kernel that waits for ranks of the team; null if there is none to wait for
 */
public record RmaPlan(PlanContext owner, OneSidedWork work, RmaSender puts, CudaPlan ofTeam)
    implements CudaPlan {
  /** True if a work is such a one. */
  public static boolean isFor(OneSidedWork work) {
    return work instanceof OneSidedWork.RemotePut
        || work instanceof OneSidedWork.Wait wait && !wait.remote().isEmpty();
  }

  /**
   * A plan.
   *
   * @param ofTeam prepares the wait for ranks of the team
   */
  public static RmaPlan of(
      PlanContext owner,
      OneSidedWork work,
      RmaSender puts,
      Function<OneSidedWork, CudaPlan> ofTeam) {
    CudaPlan near =
        work instanceof OneSidedWork.Wait wait && !wait.awaited().isEmpty()
            ? ofTeam.apply(new OneSidedWork.Wait(wait.awaited()))
            : null;
    return new RmaPlan(owner, work, puts, near);
  }

  @Override
  public void discard() {
    if (ofTeam != null) {
      ofTeam.discard();
    }
  }

  @Override
  public void launch(long send, long recv, GpuStream stream) {
    if (work instanceof OneSidedWork.RemotePut put) {
      puts.put(put, stream);
      return;
    }
    puts.checkNotCaptured(stream, "waitSignal");
    if (ofTeam != null) {
      ofTeam.launch(send, recv, stream);
    }
    puts.await(((OneSidedWork.Wait) work).remote(), stream);
  }
}
