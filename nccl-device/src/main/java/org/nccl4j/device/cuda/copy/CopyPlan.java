package org.nccl4j.device.cuda.copy;

import org.nccl4j.device.cuda.driver.CudaLibrary;
import org.nccl4j.device.cuda.driver.DriverLibrary;
import org.nccl4j.device.cuda.plan.CudaKernelPlan;
import org.nccl4j.device.cuda.plan.CudaPlan;
import org.nccl4j.device.cuda.plan.PlanContext;
import org.nccl4j.device.cuda.stream.GpuStream;
import org.nccl4j.device.cuda.stream.InternalStreams;
import org.nccl4j.device.kernel.WindowWork;
import org.nccl4j.device.symmetric.SymmetricSpace;

/**
 * An operation that only moves data, by copy engines: the ranks meet, copy, and meet again. A
 * rank's part for itself is copied in a stream beside the user's, at the same time as the parts
 * that go over links, if it is large enough for that to pay. It comes after the first meeting: the
 * driver copies inside a GPU by a kernel of its own, behind whose blocks a meeting's kernel would
 * have to wait, and with it the copies over links.
 */
public abstract class CopyPlan implements CudaPlan {
  /** From here on a copy takes longer than it takes to part streams and bring them together. */
  static final long LEAST_ASIDE_BYTES = 1 << 20;

  private final PlanContext owner;
  private final CudaKernelPlan.Needs needs;
  private final InternalStreams sides;
  private final CopyAddresses routes;
  private final int rank;
  private final int n;

  /**
   * Fields that all moves have in common.
   *
   * @param needs of the operation's buffers
   */
  public record Move(
      PlanContext owner,
      WindowWork work,
      SymmetricSpace space,
      InternalStreams sides,
      CudaKernelPlan.Needs needs) {}

  CopyPlan(Move move) {
    this.owner = move.owner;
    this.needs = move.needs;
    this.sides = move.sides;
    this.routes = new CopyAddresses(move.work, move.space);
    this.rank = move.space.place();
    this.n = move.space.size();
  }

  /** Returns the addresses of the plan's copies. */
  final CopyAddresses routes() {
    return routes;
  }

  /** Ranks. */
  final int n() {
    return n;
  }

  /** The rank at a distance from this one, which is at distance 0. */
  final int at(int distance) {
    return (rank + distance) % n;
  }

  @Override
  public final PlanContext owner() {
    return owner;
  }

  @Override
  public final boolean isEmpty() {
    return routes.bytes() == 0;
  }

  @Override
  public final long sendBytes() {
    return needs.sendBytes();
  }

  @Override
  public final long recvBytes() {
    return needs.recvBytes();
  }

  @Override
  public final void launch(long send, long recv, GpuStream stream) {
    boolean captured = CudaLibrary.isCapturing(stream.handle(), owner.gpu());
    long target = routes.target(recv, rank);
    long source = routes.source(send, rank);
    boolean aside = routes.copies() && target != source && routes.bytes() >= LEAST_ASIDE_BYTES;
    meet(send, recv, stream, captured);
    if (!aside) {
      copy(send, recv, stream, captured, 0);
    } else {
      InternalStreams.Side side = sides.of(stream, captured);
      side.part(stream);
      copy(target, source, routes.bytes(), side.handle());
      copy(send, recv, stream, captured, 1);
      side.join(stream);
    }
    meet(send, recv, stream, captured);
  }

  /** Makes a stream wait for those of all ranks, whose buffers lie at the same places. */
  abstract void meet(long send, long recv, GpuStream stream, boolean captured);

  /**
   * Puts the copies into a stream.
   *
   * @param captured whether the stream is being captured
   * @param nearest the distance of the first rank that is copied to: 1 leaves the own part out
   */
  abstract void copy(long send, long recv, GpuStream stream, boolean captured, int nearest);

  /** Copies nothing onto itself. */
  final void copy(long target, long source, long bytes, long stream) {
    if (target != source) {
      DriverLibrary.copyAsync(target, source, bytes, stream, owner.gpu());
    }
  }
}
