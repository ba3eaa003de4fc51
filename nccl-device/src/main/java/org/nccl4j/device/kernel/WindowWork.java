package org.nccl4j.device.kernel;

import org.nccl4j.device.DataType;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.symmetric.WindowView;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;

/**
 * One operation that goes straight between the buffers of the ranks, without connections.
 *
 * @param operation which
 * @param algorithm how, between windows
 * @param type type of the elements
 * @param op the operator; for operations that do not reduce, SUM, and not looked at
 * @param root of operations with one, else 0
 * @param count elements: as in the operation's call
 * @param send the window that the send buffer lies in; null where the algorithm does not need one
 * @param recv the window that the receive buffer lies in; null likewise
 * @param blocks blocks of the kernel, the same on all ranks; 0 leaves it to the device
 * @param mostBlocks that the device may take then, likewise; 0 for as many as it has use for
 * @param apart whether blocks come only after the kernel in front has ended, and so never keep as
 *     many multiprocessors again
 * @param function the mark of the user's function of whose reduction this is a step; 0 for none
 */
public record WindowWork(
    Operation operation,
    Algorithm algorithm,
    DataType type,
    RedOp op,
    int root,
    long count,
    WindowView send,
    WindowView recv,
    int blocks,
    int mostBlocks,
    boolean apart,
    int function) {
  /** Checks that all ranks call the operation, and that the algorithm goes between windows. */
  public WindowWork {
    if (!operation.isOfAllRanks() || !algorithm.isBetweenWindows()) {
      throw new IllegalArgumentException(
          operation + " does not go between windows by " + algorithm);
    }
  }

  /** An operation that is no step of a reduction by a user's function. */
  public WindowWork(
      Operation operation,
      Algorithm algorithm,
      DataType type,
      RedOp op,
      int root,
      long count,
      WindowView send,
      WindowView recv,
      int blocks,
      int mostBlocks,
      boolean apart) {
    this(operation, algorithm, type, op, root, count, send, recv, blocks, mostBlocks, apart, 0);
  }

  /** An operation of as many blocks as the device has use for, where it chooses their number. */
  public WindowWork(
      Operation operation,
      Algorithm algorithm,
      DataType type,
      RedOp op,
      int root,
      long count,
      WindowView send,
      WindowView recv,
      int blocks) {
    this(operation, algorithm, type, op, root, count, send, recv, blocks, 0, /* apart= */ false);
  }

  /** Returns the number of blocks, limited to the most that this work may take. */
  public int limit(int wanted) {
    return mostBlocks == 0 ? wanted : Math.min(mostBlocks, wanted);
  }

  /** Returns the shape of the call, as {@link CallShape} has it. */
  public long shape() {
    return CallShape.withFunction(CallShape.of(operation, type, op, root), function);
  }

  /** Returns the signature that this call's words carry; see {@link CallSignature}. */
  public int signature() {
    return CallSignature.of(shape(), count);
  }
}
