package org.nccl4j.device.cuda.rma;

import java.util.function.Function;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.cuda.plan.CudaPlan;
import org.nccl4j.device.cuda.plan.PlanContext;
import org.nccl4j.device.cuda.stream.GpuStream;
import org.nccl4j.device.kernel.OneSidedWork;

/**
 * A put to, a signal of, or a wait for ranks outside the team. Owned by the thread that launches.
 */
public final class RmaPlan implements CudaPlan {
  private final PlanContext owner;
  private final OneSidedWork work;
  private final RmaSender puts;

  /** The kernel that waits for ranks of the team; null if there is none to wait for. */
  private final CudaPlan ofTeam;

  /** The data of the launch under way; null outside launches, and where there are none. */
  private DeviceMemory source;

  private RmaPlan(PlanContext owner, OneSidedWork work, RmaSender puts, CudaPlan ofTeam) {
    this.owner = owner;
    this.work = work;
    this.puts = puts;
    this.ofTeam = ofTeam;
  }

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
  public PlanContext owner() {
    return owner;
  }

  @Override
  public void discard() {
    if (ofTeam != null) {
      ofTeam.discard();
    }
  }

  /** Takes the data of the launch, which a network card may read where they are. */
  @Override
  public void check(DeviceMemory send, DeviceMemory recv) {
    CudaPlan.super.check(send, recv);
    source = send;
  }

  @Override
  public void launch(long send, long recv, GpuStream stream) {
    if (work instanceof OneSidedWork.RemotePut put) {
      DeviceMemory from = source;
      source = null; // the next launch brings its own
      puts.put(put, from, stream);
      return;
    }
    puts.checkNotCaptured(stream, "waitSignal");
    if (ofTeam != null) {
      ofTeam.launch(send, recv, stream);
    }
    puts.await(((OneSidedWork.Wait) work).remote(), stream);
  }
}
