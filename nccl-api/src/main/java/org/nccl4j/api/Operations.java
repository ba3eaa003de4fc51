package org.nccl4j.api;

import org.nccl4j.api.group.RankQueue;
import org.nccl4j.api.init.CommunicatorState;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.ReductionOperator;
import org.nccl4j.device.kernel.Operation;

/**
 * The operations that every rank concerned calls: collectives, sends and receives. What they have
 * in common is said at {@link Communicator}, which every object of this class is.
 *
 * <p>In place means what it means in NCCL: all-reduce, broadcast and reduce with the same memory
 * for both; all-gather with {@code send} being the rank's part of {@code recv}; reduce-scatter with
 * {@code recv} being the rank's part of {@code send}; gather and scatter likewise at the root.
 * Other overlaps give undefined data, and are refused with NCCL_CHECK_MODE=DEBUG_LOCAL.
 */
public abstract sealed class Operations extends OneSided permits Inquiries {
  Operations(CommunicatorState state, RankQueue queue) {
    super(state, queue);
  }

  /**
   * Combines all ranks' send buffers, the result to all.
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
    queue.call(Operation.ALL_REDUCE, send, recv, count, type, op, 0, stream);
  }

  /**
   * As {@link #allReduce(DeviceMemory, DeviceMemory, long, DataType, RedOp, DeviceStream)}, by a
   * pre-multiplied sum or a reduction that the user supplies.
   *
   * @throws InvalidUsageException on GPUs for one that the user supplies
   */
  public void allReduce(
      DeviceMemory send,
      DeviceMemory recv,
      long count,
      DataType type,
      ReductionOperator op,
      DeviceStream stream) {
    queue.call(Operation.ALL_REDUCE, send, recv, count, type, op, 0, stream);
  }

  /**
   * The root's send buffer to all ranks.
   *
   * @param send looked at on the root alone; elsewhere it may be null
   * @param count elements of each buffer
   */
  public void broadcast(
      DeviceMemory send,
      DeviceMemory recv,
      long count,
      DataType type,
      int root,
      DeviceStream stream) {
    queue.call(Operation.BROADCAST, send, recv, count, type, RedOp.SUM, root, stream);
  }

  /**
   * Combines all ranks' send buffers, the result to the root.
   *
   * @param recv written on the root alone; elsewhere it may be null
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
    queue.call(Operation.REDUCE, send, recv, count, type, op, root, stream);
  }

  /** As the other reduce, by an operator as for all-reduce. */
  public void reduce(
      DeviceMemory send,
      DeviceMemory recv,
      long count,
      DataType type,
      ReductionOperator op,
      int root,
      DeviceStream stream) {
    queue.call(Operation.REDUCE, send, recv, count, type, op, root, stream);
  }

  /**
   * Every rank's send buffer to all, in rank order.
   *
   * @param recv nRanks x sendCount elements
   * @param sendCount elements that each rank sends
   */
  public void allGather(
      DeviceMemory send, DeviceMemory recv, long sendCount, DataType type, DeviceStream stream) {
    queue.call(Operation.ALL_GATHER, send, recv, sendCount, type, RedOp.SUM, 0, stream);
  }

  /**
   * Combines all ranks' send buffers, part r of the result to rank r.
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
    queue.call(Operation.REDUCE_SCATTER, send, recv, recvCount, type, op, 0, stream);
  }

  /** As the other reduce-scatter, by an operator as for all-reduce. */
  public void reduceScatter(
      DeviceMemory send,
      DeviceMemory recv,
      long recvCount,
      DataType type,
      ReductionOperator op,
      DeviceStream stream) {
    queue.call(Operation.REDUCE_SCATTER, send, recv, recvCount, type, op, 0, stream);
  }

  /**
   * As all-gather, with a part of its own size from each rank.
   *
   * @param send this rank's part, counts[rank()] elements
   * @param recv all parts
   * @param counts elements of each rank, the same on all ranks
   * @param offsets where each rank's part begins in recv, in elements; null for one after the other
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
   * As reduce-scatter, with a part of its own size for each rank.
   *
   * @param send the parts of all ranks, one after the other
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
   * As all-to-all, with a part of its own size for each pair of ranks.
   *
   * @param sendCounts elements for each rank
   * @param sendOffsets where they begin in send, in elements; null for one after the other
   * @param recvCounts elements from each rank, as many as it sends to this one
   * @param recvOffsets where they go in recv, in elements; null for one after the other
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
   * Part p of every rank's send buffer to rank p, in rank order.
   *
   * @param send nRanks x count elements; must not overlap recv
   * @param recv nRanks x count elements
   * @param count elements that each rank sends to each
   */
  public void allToAll(
      DeviceMemory send, DeviceMemory recv, long count, DataType type, DeviceStream stream) {
    queue.call(Operation.ALL_TO_ALL, send, recv, count, type, RedOp.SUM, 0, stream);
  }

  /**
   * Every rank's send buffer to the root, in rank order.
   *
   * @param recv nRanks x sendCount elements on the root; elsewhere it may be null
   * @param sendCount elements that each rank sends
   */
  public void gather(
      DeviceMemory send,
      DeviceMemory recv,
      long sendCount,
      DataType type,
      int root,
      DeviceStream stream) {
    queue.call(Operation.GATHER, send, recv, sendCount, type, RedOp.SUM, root, stream);
  }

  /**
   * Part r of the root's send buffer to rank r.
   *
   * @param send nRanks x recvCount elements on the root; elsewhere it may be null
   * @param recvCount elements that each rank receives
   */
  public void scatter(
      DeviceMemory send,
      DeviceMemory recv,
      long recvCount,
      DataType type,
      int root,
      DeviceStream stream) {
    queue.call(Operation.SCATTER, send, recv, recvCount, type, RedOp.SUM, root, stream);
  }

  /**
   * Sends to a rank that makes the matching {@link #recv} call. Sends and receives that depend on
   * each other belong in one {@link Group}.
   *
   * @param count elements, the same as the receiver's
   */
  public void send(DeviceMemory buffer, long count, DataType type, int peer, DeviceStream stream) {
    queue.call(Operation.SEND, buffer, null, count, type, RedOp.SUM, peer, stream);
  }

  /**
   * Receives from a rank that makes the matching {@link #send} call.
   *
   * @param count elements, the same as the sender's
   */
  public void recv(DeviceMemory buffer, long count, DataType type, int peer, DeviceStream stream) {
    queue.call(Operation.RECV, null, buffer, count, type, RedOp.SUM, peer, stream);
  }
}
