package org.nccl4j.device.kernel;

import org.nccl4j.device.DataType;
import org.nccl4j.device.ReductionOperator;
import org.nccl4j.operation.Operation;

/** Calls as messages name them, such as "all_reduce of 1024 float (sum)". */
public final class CallText {
  private CallText() {}

  /**
   * A call.
   *
   * @param op the operator; looked at where the operation has one
   * @param root or peer; likewise
   */
  public static String of(Operation operation, long count, DataType type, String op, int root) {
    String what = "%s of %d %s".formatted(operation.key(), count, type.label());
    return switch (operation) {
      case SEND -> what + " to rank " + root;
      case RECV -> what + " from rank " + root;
      case BROADCAST, GATHER, SCATTER -> what + ", root " + root;
      case REDUCE -> what + " (%s), root %d".formatted(op, root);
      case ALL_REDUCE, REDUCE_SCATTER -> what + " (%s)".formatted(op);
      case PUT_SIGNAL -> "put of %d %s to rank %d".formatted(count, type.label(), root);
      case SIGNAL -> "signal to rank %d".formatted(root);
      case WAIT_SIGNAL -> "wait for a signal of rank %d".formatted(root);
      case RAGGED_ALL_TO_ALL, RAGGED_ALL_GATHER ->
          "%s of up to %d %s to each rank".formatted(operation.key(), count, type.label());
      case ALL_GATHER,
          ALL_TO_ALL,
          DISPATCH,
          COMBINE,
          QUANTISE,
          QUANTISED_SUM,
          DEQUANTISE,
          LOCAL_REDUCTION ->
          what;
    };
  }

  /** A collective. */
  public static String of(CollectiveWork work) {
    return of(work, work.op().label());
  }

  /** A collective that reduces by an operator of its own instead of the work's. */
  public static String of(CollectiveWork work, ReductionOperator operator) {
    return of(work, operator.name());
  }

  private static String of(CollectiveWork work, String op) {
    return of(work.operation(), work.count(), work.type(), op, work.root());
  }

  /** An operation between windows. */
  public static String of(WindowWork work) {
    return of(work.operation(), work.count(), work.type(), work.op().label(), work.root());
  }

  /** A message of one rank to another, which may be a part of a call. */
  public static String of(P2pWork work) {
    return work.kind() == P2pWork.Kind.SEND
        ? "a send of %d bytes to rank %d".formatted(work.bytes(), work.peer())
        : "a receive of %d bytes from rank %d".formatted(work.bytes(), work.peer());
  }
}
