package org.nccl4j.device.kernel;

import org.nccl4j.device.DataType;
import org.nccl4j.device.ReductionOperator;
import org.nccl4j.operation.Operation;

/** Calls as messages name them, such as "all_reduce of 1024 float (sum)". */
public final class CallText {
  private CallText() {}

  /**
   * A call, which may be a step of a reduction by a user's function or of a quantised sum.
   *
   * @param op the operator; looked at where the operation has one
   * @param root or peer; likewise
   * @param function its mark; 0 for another call
   */
  public static String of(
      Operation operation, long count, DataType type, String op, int root, int function) {
    if (function == 0) {
      return plain(operation, count, type, op, root);
    }
    return operation.reduces()
        ? plain(operation, count, type, function(function), root)
        : plain(operation, count, type, op, root) + ", for " + function(function);
  }

  private static String function(int mark) {
    String exchange = QuantisedWork.Exchange.text(mark);
    return exchange == null ? "function %04x".formatted(mark) : exchange;
  }

  private static String plain(Operation operation, long count, DataType type, String op, int root) {
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
      case RAGGED_ALL_TO_ALL, RAGGED_ALL_GATHER, RAGGED_REDUCE_SCATTER ->
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

  /**
   * A call of all ranks.
   *
   * @param shape as {@link CallShape} has it
   */
  public static String of(long shape, long count) {
    return of(
        CallShape.operation(shape),
        count,
        CallShape.type(shape),
        CallShape.op(shape).label(),
        CallShape.root(shape),
        CallShape.function(shape));
  }

  /** The same of a call that reduces by an operator of its own. */
  public static String of(long shape, long count, ReductionOperator operator) {
    String op = operator.name();
    int function = CallShape.function(shape);
    return plain(
        CallShape.operation(shape),
        count,
        CallShape.type(shape),
        function == 0 ? op : op + ", " + function(function),
        CallShape.root(shape));
  }

  /** A message of one rank to another, which may be a part of a call. */
  public static String of(P2pWork work) {
    return work.kind() == P2pWork.Kind.SEND
        ? "a send of %d bytes to rank %d".formatted(work.bytes(), work.peer())
        : "a receive of %d bytes from rank %d".formatted(work.bytes(), work.peer());
  }
}
