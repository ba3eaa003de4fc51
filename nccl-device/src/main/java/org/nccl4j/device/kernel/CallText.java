package org.nccl4j.device.kernel;

import java.util.Locale;
import org.nccl4j.device.DataType;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.ReductionOperator;

/** Calls as messages name them, such as "all_reduce of 1024 float (sum)". */
public final class CallText {
  private CallText() {}

  /**
   * A call.
   *
   * @param label the operation, as nccl-tests names it
   * @param op the operator; looked at where the operation has one
   * @param root or peer; likewise
   */
  public static String of(String label, long count, DataType type, String op, int root) {
    String what = "%s of %d %s".formatted(label, count, type.label());
    return switch (label) {
      case "send" -> what + " to rank " + root;
      case "recv" -> what + " from rank " + root;
      case "broadcast", "gather", "scatter" -> what + ", root " + root;
      case "reduce" -> what + " (%s), root %d".formatted(op, root);
      case "all_reduce", "reduce_scatter" -> what + " (%s)".formatted(op);
      default -> what;
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
    return of(label(work.collective().name()), work.count(), work.type(), op, work.root());
  }

  /** An operation between windows. */
  public static String of(DirectWork work) {
    RedOp op = work.op();
    String label =
        work.operation() == DirectWork.Operation.ALL_TO_ALL
            ? "alltoall"
            : label(work.operation().name());
    return of(label, work.count(), work.type(), op.label(), work.root());
  }

  /** A message of one rank to another, which may be a part of a call. */
  public static String of(P2pWork work) {
    return work.kind() == P2pWork.Kind.SEND
        ? "a send of %d bytes to rank %d".formatted(work.bytes(), work.peer())
        : "a receive of %d bytes from rank %d".formatted(work.bytes(), work.peer());
  }

  private static String label(String name) {
    return name.toLowerCase(Locale.ROOT);
  }
}
