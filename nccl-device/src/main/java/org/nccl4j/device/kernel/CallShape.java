package org.nccl4j.device.kernel;

import java.util.Arrays;
import org.nccl4j.device.DataType;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.ReductionOperator;
import org.nccl4j.operation.Operation;

/**
 * The shape of a call in one word: operation, element type, operator, root and the mark of a user's
 * function, which caches of plans and the flight recorder compare at once. A call is its shape,
 * count, buffers and stream.
 */
public final class CallShape {
  /** The operation's number is in the bits from here on. */
  public static final int OPERATION_SHIFT = 58;

  /**
   * The marks from here on tell exchanges of quantised sums apart, as {@link
   * QuantisedWork.Exchange} has them. One of 10,000 users' functions has one of them: its messages
   * name the exchange instead.
   */
  static final int FIRST_EXCHANGE = 65530;

  /** The mark of a user's function or of an exchange is in 16 bits from here on; 0 without one. */
  private static final int FUNCTION_SHIFT = 32;

  private static final long FUNCTION_BITS = 0xffffL << FUNCTION_SHIFT;

  private static final int TYPE_SHIFT = 53;
  private static final int OP_SHIFT = 49;
  private static final int OPERATION_PLACES = 64;
  private static final int TYPE_PLACES = 32;
  private static final int OP_PLACES = 16;

  /** 2^64 by the golden ratio: spreads hashes that lie close together. */
  private static final long SPREAD = 0x9E3779B97F4A7C15L;

  /** The places without a value stand for null. */
  private static final Operation[] OPERATIONS = Arrays.copyOf(Operation.values(), OPERATION_PLACES);

  private static final DataType[] TYPES = Arrays.copyOf(DataType.values(), TYPE_PLACES);

  private static final RedOp[] OPS = Arrays.copyOf(RedOp.values(), OP_PLACES);

  private static final int SEND = Operation.SEND.ordinal();
  private static final int RECV = Operation.RECV.ordinal();

  private CallShape() {}

  /**
   * The word of a call.
   *
   * @param type may be null, which the check of the arguments refuses
   * @param op SUM for operations that do not reduce; may be null likewise
   * @param root or peer; 0 for operations without one
   */
  @HotPath
  public static long of(Operation operation, DataType type, RedOp op, int root) {
    return of(
        operation.ordinal(),
        type == null ? TYPE_PLACES - 1 : type.ordinal(),
        op == null ? OP_PLACES - 1 : op.ordinal(),
        root);
  }

  /**
   * The word of a call from the numbers of its parts.
   *
   * @param operation less than 64
   * @param type less than 32
   * @param op less than 16
   */
  @HotPath
  public static long of(int operation, int type, int op, int root) {
    return (long) operation << OPERATION_SHIFT
        | (long) type << TYPE_SHIFT
        | (long) op << OP_SHIFT
        | root & 0xffffffffL;
  }

  /** The word of a call that reduces by an operator of its own, in which SUM stands for it. */
  public static long of(Operation operation, DataType type, ReductionOperator op, int root) {
    return of(operation, type, op == null ? null : RedOp.SUM, root);
  }

  /** The operation's number, which in another process's record may be none of this version's. */
  @HotPath
  public static int number(long shape) {
    return (int) (shape >>> OPERATION_SHIFT);
  }

  /** The operation. */
  @HotPath
  public static Operation operation(long shape) {
    return OPERATIONS[number(shape)];
  }

  /** True for a send or a receive. */
  @HotPath
  public static boolean isP2p(long shape) {
    return isSend(shape) || number(shape) == RECV;
  }

  /** True for a send. */
  @HotPath
  public static boolean isSend(long shape) {
    return number(shape) == SEND;
  }

  /** The type of the elements. */
  @HotPath
  public static DataType type(long shape) {
    return TYPES[(int) (shape >>> TYPE_SHIFT) & TYPE_PLACES - 1];
  }

  /** The operator. */
  @HotPath
  public static RedOp op(long shape) {
    return OPS[(int) (shape >>> OP_SHIFT) & OP_PLACES - 1];
  }

  /** The root or peer. */
  @HotPath
  public static int root(long shape) {
    return (int) shape;
  }

  /**
   * The same for a reduction by a user's function, a step of one, or an exchange of quantised sums.
   *
   * @param mark as {@link ReductionOperator#mark} or {@link QuantisedWork.Exchange#mark} has it
   */
  public static long withFunction(long shape, int mark) {
    return shape & ~FUNCTION_BITS | (long) mark << FUNCTION_SHIFT & FUNCTION_BITS;
  }

  /** The mark of the user's function or of an exchange; 0 without one. */
  @HotPath
  public static int function(long shape) {
    return (int) ((shape & FUNCTION_BITS) >>> FUNCTION_SHIFT);
  }

  /** A hash of a call, for {@link #place}. */
  @HotPath
  public static long hash(long shape, long count) {
    return count * 31 + shape;
  }

  /** The place of a hash in a table of 2 to the power of so many bits. */
  @HotPath
  public static int place(long hash, int bits) {
    return (int) (hash * SPREAD >>> Long.SIZE - bits);
  }

  /** Bytes of so many elements. */
  @HotPath
  public static long bytes(long shape, long count) {
    return count * type(shape).bytes();
  }
}
