package org.nccl4j.device.cuda;

import org.nccl4j.device.kernel.OneSidedWork;

/**
 * A put to, a signal of, or a wait for ranks outside the team.
 *
 * @param ofTeam the kernel that waits for ranks of the team; null if there is none to wait for
 */
record RemotePlan(CudaKernelCommunicator owner, OneSidedWork work, RemotePuts puts, CudaPlan ofTeam)
    implements CudaPlan {
  /** Whether a work is such a one. */
  static boolean isFor(OneSidedWork work) {
    return work instanceof OneSidedWork.RemotePut
        || work instanceof OneSidedWork.Wait wait && !wait.remote().isEmpty();
  }

  static RemotePlan of(
      CudaKernelCommunicator owner, OneSidedWork work, RemotePuts puts, DirectPlans direct) {
    CudaPlan ofTeam =
        work instanceof OneSidedWork.Wait wait && !wait.awaited().isEmpty()
            ? direct.prepare(new OneSidedWork.Wait(wait.awaited()))
            : null;
    return new RemotePlan(owner, work, puts, ofTeam);
  }

  @Override
  public void discard() {
    if (ofTeam != null) {
      ofTeam.discard();
    }
  }

  @Override
  public void launch(long send, long recv, CudaStream stream) {
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
