package org.nccl4j.device.kernel;

import org.nccl4j.device.DataType;
import org.nccl4j.device.RedOp;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/**
 * One collective as the planner decided it, without the buffers.
 *
 * @param operation which
 * @param algorithm how
 * @param protocol how a step is handed over
 * @param type type of the elements
 * @param op the operator; for collectives that do not reduce, SUM, and not looked at
 * @param root the root of a broadcast or reduce, else 0
 * @param count elements: broadcast, reduce, all-reduce: of the whole; all-gather: that each rank
 *     sends; reduce-scatter: that each rank receives
 * @param nChannels channels that share it, the same on all ranks; 0 leaves it to the device; the
 *     host device uses 1
 * @param chunkBytes most bytes of one step; the device makes it fit the slot (of a channel)
 * @param mostBlocks that a kernel may have which uses no channels, as with one rank; 0 for no limit
 * @param function the mark of the user's function that reduces, or of whose reduction this is a
 *     step; 0 for none
 */
public record CollectiveWork(
    Operation operation,
    Algorithm algorithm,
    Protocol protocol,
    DataType type,
    RedOp op,
    int root,
    long count,
    int nChannels,
    int chunkBytes,
    int mostBlocks,
    int function) {
  /** Checks that the operation and the algorithm go over connections. */
  public CollectiveWork {
    if (!operation.isCollective() || algorithm.isBetweenWindows()) {
      throw new IllegalArgumentException(operation + " over connections by " + algorithm);
    }
  }

  /** A collective without a limit of blocks and without a function of the user. */
  public CollectiveWork(
      Operation operation,
      Algorithm algorithm,
      Protocol protocol,
      DataType type,
      RedOp op,
      int root,
      long count,
      int nChannels,
      int chunkBytes) {
    this(operation, algorithm, protocol, type, op, root, count, nChannels, chunkBytes, 0, 0);
  }

  /** Returns the number of blocks, limited to the most that this work may take. */
  public int limit(int wanted) {
    return mostBlocks == 0 ? wanted : Math.min(mostBlocks, wanted);
  }

  /** Returns the shape of the call, as {@link CallShape} has it. */
  public long shape() {
    return CallShape.withFunction(CallShape.of(operation, type, op, root), function);
  }

  /** Returns the signature that this call's data carry; see {@link CallSignature}. */
  public int signature() {
    return CallSignature.of(shape(), count);
  }
}
