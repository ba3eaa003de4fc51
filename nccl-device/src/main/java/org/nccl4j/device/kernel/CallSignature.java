package org.nccl4j.device.kernel;

import org.nccl4j.device.DataType;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.ReductionOperator;
import org.nccl4j.operation.Operation;

/**
 * 16 bits that stand for a call: its operation, element type, operator or the mark of the user's
 * function, root and count. They travel with the data, so that a rank which gets data of another
 * call than its own says so, instead of taking them for its own. A signature is never 0, and is the
 * same whatever way the call goes.
 *
 * <p>The upper 10 bits, {@link #line}, are for flags that have no room for more; they are never 0
 * either. Two calls whose signatures are the same are taken for one. In both forms this never
 * happens to two calls that differ in one respect alone: the operation, the type, the operator, or
 * (unless the difference is a multiple of 1021) the function's mark, the root or the count. Of
 * other pairs it happens to one in a thousand lines, and to one in 60,000 signatures.
 *
 * <p>Scalars of operators are not part of it. Of what only moves data between pairs of ranks, types
 * are not either: both sides of a pair have to agree on the bytes.
 */
public final class CallSignature {
  /** Bits of a signature. */
  public static final int BITS = 16;

  /** Bits of a line's share of it. */
  public static final int LINE_BITS = 10;

  private static final int LOW_BITS = BITS - LINE_BITS;

  /** The largest primes that leave room for 0 beside what they divide, in 10 and in 6 bits. */
  private static final int HIGH_PRIME = 1021;

  private static final int LOW_PRIME = 61;

  /** Operation number of sends and receives in a signature. It follows the named operations. */
  private static final int MESSAGE = Operation.ofAllRanks().size();

  /** Operator number of operators other than {@link RedOp}'s. It follows those. */
  private static final int PREMUL = RedOp.values().length;

  private static final int SUPPLIED = PREMUL + 1;
  private static final int OPERATORS = SUPPLIED + 1;
  private static final int TYPES = DataType.values().length;

  private CallSignature() {}

  /**
   * Returns the signature of a call of all ranks.
   *
   * @param shape as {@link CallShape} has it
   */
  public static int of(long shape, long count) {
    return of(shape, count, CallShape.op(shape).ordinal());
  }

  /** The same of a call that reduces by an operator of its own. */
  public static int of(long shape, long count, ReductionOperator operator) {
    return of(shape, count, operator.isFunction() ? SUPPLIED : PREMUL);
  }

  /**
   * Returns the signature of the data from one rank to another, in an operation that only moves
   * data between pairs of ranks.
   *
   * @param root of a scatter or gather
   * @param bytes that go from the one to the other
   * @param function the mark of the user's function that the data are for; 0 for none
   */
  public static int ofPart(Operation operation, int root, long bytes, int function) {
    int kind = operation.ordinal() * TYPES * OPERATORS;
    return mix(kind, operation.isRooted() ? root : 0, bytes, function);
  }

  /** Returns the signature of a send and its receive. */
  public static int ofMessage(long bytes) {
    return mix(MESSAGE * TYPES * OPERATORS, 0, bytes, 0);
  }

  /** The upper 10 bits. */
  public static int line(int signature) {
    return signature >>> LOW_BITS;
  }

  private static int of(long shape, long count, int op) {
    Operation operation = CallShape.operation(shape);
    int root = CallShape.root(shape);
    int function = CallShape.function(shape);
    if (!operation.isCollective()) {
      return ofPart(operation, root, CallShape.bytes(shape, count), function);
    }
    int kind = operation.ordinal() * TYPES + CallShape.type(shape).ordinal();
    return mix(
        kind * OPERATORS + (operation.reduces() ? op : 0),
        operation.isRooted() ? root : 0,
        count,
        function);
  }

  /**
   * A sum of multiples, so that no difference in one term alone is lost.
   *
   * @param kind less than the larger prime
   */
  private static int mix(int kind, int root, long size, int function) {
    long others = 677L * root + 389 * (size % HIGH_PRIME) + 541L * function;
    int high = Math.floorMod(kind + others, HIGH_PRIME);
    long lower = 11L * root + 29 * (size % LOW_PRIME) + 17L * function;
    int low = Math.floorMod(7L * kind + lower, LOW_PRIME);
    return (high + 1) << LOW_BITS | low;
  }
}
