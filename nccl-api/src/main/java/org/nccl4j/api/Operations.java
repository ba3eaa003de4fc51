package org.nccl4j.api;

import org.nccl4j.api.group.OperationDispatcher;
import org.nccl4j.api.init.CommunicatorState;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.ReductionOperator;
import org.nccl4j.device.kernel.CallShape;
import org.nccl4j.device.kernel.Operation;

/**
 * The operations that all participating ranks call: collectives, sends and receives. {@link
 * Communicator} describes their common rules.
 *
 * <p>In place has NCCL's meaning: all-reduce, broadcast and reduce use the same memory for both
 * buffers; in all-gather {@code send} is the rank's part of {@code recv}; in reduce-scatter {@code
 * recv} is the rank's part of {@code send}; gather and scatter do the same at the root. Other
 * overlaps give undefined data. NCCL_CHECK_MODE=DEBUG_LOCAL refuses them.
 */
public abstract sealed class Operations extends OneSided permits Inquiries {
  Operations(CommunicatorState state, OperationDispatcher queue) {
    super(state, queue);
  }

  /**
   * Combines all ranks' send buffers and gives the result to all ranks.
   *
   * @param count elements of each buffer
   */
  public void allReduce(
      DeviceMemory send,
      DeviceMemory recv,
      long count,
      DataType type,
      RedOp op,
      DeviceStream stream) {
    queue.call(CallShape.of(Operation.ALL_REDUCE, type, op, 0), send, recv, count, stream);
  }

  /**
   * As {@link #allReduce(DeviceMemory, DeviceMemory, long, DataType, RedOp, DeviceStream)}, with a
   * pre-multiplied sum or a user's reduction.
   *
   * @throws InvalidUsageException on GPUs for a user's reduction
   */
  public void allReduce(
      DeviceMemory send,
      DeviceMemory recv,
      long count,
      DataType type,
      ReductionOperator op,
      DeviceStream stream) {
    queue.call(CallShape.of(Operation.ALL_REDUCE, type, op, 0), op, send, recv, count, stream);
  }

  /**
   * Copies the root's send buffer to all ranks.
   *
   * @param send read only on the root; may be null on other ranks
   * @param count elements of each buffer
   */
  public void broadcast(
      DeviceMemory send,
      DeviceMemory recv,
      long count,
      DataType type,
      int root,
      DeviceStream stream) {
    queue.call(CallShape.of(Operation.BROADCAST, type, RedOp.SUM, root), send, recv, count, stream);
  }

  /**
   * Combines all ranks' send buffers and gives the result to the root.
   *
   * @param recv written only on the root; may be null on other ranks
   * @param count elements of each buffer
   */
  public void reduce(
      DeviceMemory send,
      DeviceMemory recv,
      long count,
      DataType type,
      RedOp op,
      int root,
      DeviceStream stream) {
    queue.call(CallShape.of(Operation.REDUCE, type, op, root), send, recv, count, stream);
  }

  /** As the other reduce, with an operator as in all-reduce. */
  public void reduce(
      DeviceMemory send,
      DeviceMemory recv,
      long count,
      DataType type,
      ReductionOperator op,
      int root,
      DeviceStream stream) {
    queue.call(CallShape.of(Operation.REDUCE, type, op, root), op, send, recv, count, stream);
  }

  /**
   * Gathers every rank's send buffer on all ranks, in rank order.
   *
   * @param recv nRanks x sendCount elements
   * @param sendCount elements that each rank sends
   */
  public void allGather(
      DeviceMemory send, DeviceMemory recv, long sendCount, DataType type, DeviceStream stream) {
    queue.call(
        CallShape.of(Operation.ALL_GATHER, type, RedOp.SUM, 0), send, recv, sendCount, stream);
  }

  /**
   * Combines all ranks' send buffers and gives part r of the result to rank r.
   *
   * @param send nRanks x recvCount elements
   * @param recvCount elements that each rank receives
   */
  public void reduceScatter(
      DeviceMemory send,
      DeviceMemory recv,
      long recvCount,
      DataType type,
      RedOp op,
      DeviceStream stream) {
    queue.call(CallShape.of(Operation.REDUCE_SCATTER, type, op, 0), send, recv, recvCount, stream);
  }

  /** As the other reduce-scatter, with an operator as in all-reduce. */
  public void reduceScatter(
      DeviceMemory send,
      DeviceMemory recv,
      long recvCount,
      DataType type,
      ReductionOperator op,
      DeviceStream stream) {
    queue.call(
        CallShape.of(Operation.REDUCE_SCATTER, type, op, 0), op, send, recv, recvCount, stream);
  }

  /**
   * As all-gather, with a count for each rank.
   *
   * @param send this rank's part, counts[rank()] elements
   * @param recv all parts
   * @param counts elements of each rank, the same on all ranks
   * @param offsets the start of each rank's part in recv, in elements; null for contiguous parts
   */
  public void allGatherV(
      DeviceMemory send,
      DeviceMemory recv,
      long[] counts,
      long[] offsets,
      DataType type,
      DeviceStream stream) {
    new VariableCalls(this).allGatherV(send, recv, parts("counts", counts, offsets), type, stream);
  }

  /**
   * As reduce-scatter, with a count for each rank.
   *
   * @param send the parts of all ranks, contiguous
   * @param recv this rank's part of the result, counts[rank()] elements
   * @param counts elements of each rank, the same on all ranks
   */
  public void reduceScatterV(
      DeviceMemory send,
      DeviceMemory recv,
      long[] counts,
      DataType type,
      RedOp op,
      DeviceStream stream) {
    new VariableCalls(this)
        .reduceScatterV(send, recv, parts("counts", counts, null), type, op, stream);
  }

  /**
   * As all-to-all, with a count for each pair of ranks.
   *
   * @param sendCounts elements for each rank
   * @param sendOffsets their starts in send, in elements; null for contiguous parts
   * @param recvCounts elements from each rank, equal to the count that it sends to this rank
   * @param recvOffsets their starts in recv, in elements; null for contiguous parts
   */
  public void allToAllV(
      DeviceMemory send,
      long[] sendCounts,
      long[] sendOffsets,
      DeviceMemory recv,
      long[] recvCounts,
      long[] recvOffsets,
      DataType type,
      DeviceStream stream) {
    new VariableCalls(this)
        .allToAllV(
            send,
            parts("sendCounts", sendCounts, sendOffsets),
            recv,
            parts("recvCounts", recvCounts, recvOffsets),
            type,
            stream);
  }

  private static VariableCalls.Parts parts(String name, long[] counts, long[] offsets) {
    return offsets == null
        ? VariableCalls.Parts.packed(name, counts)
        : new VariableCalls.Parts(name, counts, offsets);
  }

  /**
   * Sends part p of every rank's send buffer to rank p, in rank order.
   *
   * @param send nRanks x count elements; must not overlap recv
   * @param recv nRanks x count elements
   * @param count elements that each rank sends to each rank
   */
  public void allToAll(
      DeviceMemory send, DeviceMemory recv, long count, DataType type, DeviceStream stream) {
    queue.call(CallShape.of(Operation.ALL_TO_ALL, type, RedOp.SUM, 0), send, recv, count, stream);
  }

  /**
   * Gathers every rank's send buffer on the root, in rank order.
   *
   * @param recv nRanks x sendCount elements on the root; may be null on other ranks
   * @param sendCount elements that each rank sends
   */
  public void gather(
      DeviceMemory send,
      DeviceMemory recv,
      long sendCount,
      DataType type,
      int root,
      DeviceStream stream) {
    queue.call(
        CallShape.of(Operation.GATHER, type, RedOp.SUM, root), send, recv, sendCount, stream);
  }

  /**
   * Sends part r of the root's send buffer to rank r.
   *
   * @param send nRanks x recvCount elements on the root; may be null on other ranks
   * @param recvCount elements that each rank receives
   */
  public void scatter(
      DeviceMemory send,
      DeviceMemory recv,
      long recvCount,
      DataType type,
      int root,
      DeviceStream stream) {
    queue.call(
        CallShape.of(Operation.SCATTER, type, RedOp.SUM, root), send, recv, recvCount, stream);
  }

  /**
   * Sends to a rank that makes the matching {@link #recv} call. Put sends and receives that depend
   * on each other into one {@link Group}.
   *
   * @param count elements, the same as the receiver's
   */
  public void send(DeviceMemory buffer, long count, DataType type, int peer, DeviceStream stream) {
    queue.call(CallShape.of(Operation.SEND, type, RedOp.SUM, peer), buffer, null, count, stream);
  }

  /**
   * Receives from a rank that makes the matching {@link #send} call.
   *
   * @param count elements, the same as the sender's
   */
  public void recv(DeviceMemory buffer, long count, DataType type, int peer, DeviceStream stream) {
    queue.call(CallShape.of(Operation.RECV, type, RedOp.SUM, peer), null, buffer, count, stream);
  }
}
