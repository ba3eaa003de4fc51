package org.nccl4j.device.host.kernel.protocol;

import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.host.reduce.Operands;
import org.nccl4j.device.host.reduce.Reduction;

/**
 * Moves chunks between this rank's buffers and some peers, one step of each of their connections a
 * call. Data received from several peers are combined in their order; sent data go to all of them.
 * A call of 0 bytes is no step. Owned by the thread that runs the communicator's current kernel.
 */
public abstract class Primitives {
  /** In a mode: data come from the peers. */
  public static final int RECEIVE = 1;

  /** In a mode: data go to the peers. */
  public static final int SEND = 2;

  /** In a mode: the target is a place for what goes to the peers, and is not finished. */
  static final int PARTIAL = 4;

  final SpinWait waiter;
  final Call call;
  public final RecvEnd[] recvs;
  public final SendEnd[] sends;

  /** Reduction that combines received data; null if nothing is combined. */
  final Reduction reduction;

  final int elementBytes;

  /** The step's, where the reduction takes all at once. */
  final Operands operands = new Operands();

  /** Number of receiving ends whose rank is lower than this rank. */
  final int lower;

  Primitives(
      int rank,
      SpinWait waiter,
      Call call,
      RecvEnd[] recvs,
      SendEnd[] sends,
      Reduction reduction,
      int elementBytes) {
    this.waiter = waiter;
    this.call = call;
    this.recvs = recvs;
    this.sends = sends;
    this.reduction = reduction;
    this.elementBytes = elementBytes;
    int below = 0;
    for (RecvEnd end : recvs) {
      below += end.peer < rank ? 1 : 0;
    }
    this.lower = below;
  }

  /**
   * Sets whether peers may read what this rank sends from its buffers, until the kernel ends. The
   * algorithm must not let a buffer's part change between the step that sends it and its reading.
   */
  @HotPath
  public void mayExpose(boolean may) {}

  /** Sets whether what is received leaves the caches before anybody reads it. */
  public void leaves(boolean does) {}

  /**
   * True if it pays to say of one more step where its data are wanted ({@link #expect}); false
   * where no proxy could receive them there.
   */
  @HotPath
  public boolean mayExpect() {
    return false;
  }

  /**
   * Says where the data of a step that receives are wanted: of the first one of which that has not
   * been said. They may come there from now on, and the kernel has to receive the step.
   *
   * @param target null if the data are not only copied
   * @param bytes of the step; a step of none is no step
   */
  @HotPath
  public void expect(HostMemory target, long offset, int bytes) {}

  /** Own data to the peers. */
  @HotPath
  public final void send(HostMemory source, long sourceOffset, int bytes) {
    step(source, sourceOffset, null, 0, bytes, SEND);
  }

  /** Own data to the target and the peers. */
  @HotPath
  public final void copySend(
      HostMemory source, long sourceOffset, HostMemory target, long targetOffset, int bytes) {
    step(source, sourceOffset, target, targetOffset, bytes, SEND);
  }

  /** A peer's data to the target. */
  @HotPath
  public final void recv(HostMemory target, long targetOffset, int bytes) {
    step(null, 0, target, targetOffset, bytes, RECEIVE);
  }

  /** A peer's data to the target and on to the peers. */
  @HotPath
  public final void recvCopySend(HostMemory target, long targetOffset, int bytes) {
    step(null, 0, target, targetOffset, bytes, RECEIVE | SEND);
  }

  /** Own and received data, combined, on to the peers. */
  @HotPath
  public final void recvReduceSend(HostMemory source, long sourceOffset, int bytes) {
    step(source, sourceOffset, null, 0, bytes, RECEIVE | SEND);
  }

  /**
   * Same as {@link #recvReduceSend(HostMemory, long, int)} where there is a place for the outcome:
   * memory that nothing else uses until the peers have read it.
   */
  @HotPath
  public final void recvReduceSend(
      HostMemory source, long sourceOffset, HostMemory place, long placeOffset, int bytes) {
    step(source, sourceOffset, place, placeOffset, bytes, RECEIVE | SEND | PARTIAL);
  }

  /** Own and received data, combined and finished, to the target. */
  @HotPath
  public final void recvReduceCopy(
      HostMemory source, long sourceOffset, HostMemory target, long targetOffset, int bytes) {
    step(source, sourceOffset, target, targetOffset, bytes, RECEIVE);
  }

  /** Own and received data, combined and finished, to the target and the peers. */
  @HotPath
  public final void recvReduceCopySend(
      HostMemory source, long sourceOffset, HostMemory target, long targetOffset, int bytes) {
    step(source, sourceOffset, target, targetOffset, bytes, RECEIVE | SEND);
  }

  /**
   * Own and received data, combined in the order of the ranks and finished, to the target and, if
   * the mode has SEND, to the peers. All ranks that combine the same data so get the same bits.
   */
  @HotPath
  public abstract void reduceInOrder(
      HostMemory source,
      long sourceOffset,
      HostMemory target,
      long targetOffset,
      int bytes,
      int mode);

  /** Adds own data to the operands. */
  @HotPath
  final void addOwn(HostMemory source, long offset) {
    if (reduction.hasPrepare()) {
      operands.addUnprepared(source, offset);
    } else {
      operands.add(source, offset);
    }
  }

  /** True if own and received data in a step without order are combined all at once. */
  @HotPath
  final boolean combinesAll() {
    return reduction.widens() && (recvs.length > 1 || reduction.hasPrepare());
  }

  /**
   * One step.
   *
   * @param source own data, or null
   * @param target where the outcome goes to, or null; a reduction with a target is finished
   * @param mode RECEIVE, SEND or both; with PARTIAL the target may be left alone
   */
  abstract void step(
      HostMemory source,
      long sourceOffset,
      HostMemory target,
      long targetOffset,
      int bytes,
      int mode);
}
