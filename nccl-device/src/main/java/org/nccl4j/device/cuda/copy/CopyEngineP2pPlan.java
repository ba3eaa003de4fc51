package org.nccl4j.device.cuda.copy;

import java.util.List;
import org.nccl4j.device.cuda.driver.CudaLibrary;
import org.nccl4j.device.cuda.plan.CudaKernelPlan;
import org.nccl4j.device.cuda.plan.CudaPlan;
import org.nccl4j.device.cuda.plan.PlanContext;
import org.nccl4j.device.cuda.stream.GpuStream;
import org.nccl4j.device.cuda.stream.InternalStreams;

/**
 * Sends and receives, some of them by copy engines. Messages out and messages in by copy engines
 * have a stream each beside the user's, in which a kernel does the others.
 *
 * <p>Streams may share a queue of the GPU, where what waits holds up all that is behind it. So
 * pieces are queued by rounds, first what goes out, then what comes in, and none waits for one that
 * another rank queues in a later round.
 */
final class CopyEngineP2pPlan implements CudaPlan {
  private final PlanContext owner;
  private final List<Phase> phases;
  private final InternalStreams outgoing;
  private final InternalStreams incoming;
  private final CudaKernelPlan.Needs needs;

  /**
   * Copies and kernels that run at the same time.
   *
   * @param kernel null if nothing goes by one
   * @param rounds most of a lane
   */
  record Phase(CudaPlan kernel, List<CopyEngineChannel> lanes, int rounds) {
    static Phase of(CudaPlan kernel, List<CopyEngineChannel> lanes) {
      int rounds = lanes.stream().mapToInt(CopyEngineChannel::rounds).max().orElse(0);
      return new Phase(kernel, List.copyOf(lanes), rounds);
    }
  }

  /**
   * A plan.
   *
   * @param phases one after the other
   * @param outgoing the stream of what is sent
   * @param incoming the stream of what is received
   * @param needs of the launch's own buffers
   */
  CopyEngineP2pPlan(
      PlanContext owner,
      List<Phase> phases,
      InternalStreams outgoing,
      InternalStreams incoming,
      CudaKernelPlan.Needs needs) {
    this.owner = owner;
    this.phases = List.copyOf(phases);
    this.outgoing = outgoing;
    this.incoming = incoming;
    this.needs = needs;
  }

  @Override
  public PlanContext owner() {
    return owner;
  }

  @Override
  public long sendBytes() {
    return needs.sendBytes();
  }

  @Override
  public long recvBytes() {
    return needs.recvBytes();
  }

  /** At least 1, of the kernels between the copies. */
  @Override
  public int blocks() {
    return phases.stream()
        .mapToInt(phase -> phase.kernel == null ? 1 : Math.max(1, phase.kernel.blocks()))
        .max()
        .orElse(0);
  }

  @Override
  public void launch(long send, long recv, GpuStream stream) {
    boolean captured = CudaLibrary.isCapturing(stream.handle(), owner.gpu());
    InternalStreams.Side out = outgoing.of(stream, captured);
    InternalStreams.Side in = incoming.of(stream, captured);
    for (Phase phase : phases) {
      out.part(stream);
      in.part(stream);
      if (phase.kernel != null && !phase.kernel.isEmpty()) {
        phase.kernel.launch(send, recv, stream);
      }
      for (CopyEngineChannel lane : phase.lanes) {
        lane.begin(lane.sends() ? out.stream() : in.stream());
      }
      for (int round = 0; round < phase.rounds; round++) {
        launch(phase.lanes, true, round, send, out.stream());
        launch(phase.lanes, false, round, recv, in.stream());
      }
      out.join(stream);
      in.join(stream);
    }
  }

  @Override
  public void discard() {
    for (Phase phase : phases) {
      if (phase.kernel != null) {
        phase.kernel.discard();
      }
      phase.lanes.forEach(CopyEngineChannel::discard);
    }
  }

  private static void launch(
      List<CopyEngineChannel> lanes, boolean sends, int round, long base, GpuStream stream) {
    for (CopyEngineChannel lane : lanes) {
      if (lane.sends() == sends && round < lane.rounds()) {
        lane.launch(round, base, stream);
      }
    }
  }
}
