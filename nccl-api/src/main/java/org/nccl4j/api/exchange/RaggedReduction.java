package org.nccl4j.api.exchange;

import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.ReductionOperator;
import org.nccl4j.device.kernel.CallShape;
import org.nccl4j.device.kernel.CallSignature;
import org.nccl4j.operation.Operation;

/**
 * The reduction of a ragged reduce-scatter.
 *
 * @param type of the numbers that elements consist of; UINT8 for structs
 * @param op null for an operator of the user
 * @param operator null for an operator of RedOp
 */
public record RaggedReduction(DataType type, RedOp op, ReductionOperator operator) {
  /** Throws unless elements consist of whole numbers, or structs, that the operator takes. */
  public void check(ExchangeChecks checks, String what, int elementBytes) {
    if (operator != null && operator.type() != null && operator.type() != type) {
      throw checks.wrong(
          what,
          ErrorId.TYPE,
          "the operator %s was created for %s, but the elements are %s"
              .formatted(operator.name(), operator.type().label(), type.label()),
          "create the operator for the type of the elements");
    }
    if (elementBytes % valueBytes() != 0) {
      throw wrongSize(checks, what, elementBytes);
    }
  }

  private InvalidArgumentException wrongSize(ExchangeChecks checks, String what, int elementBytes) {
    return checks.wrong(
        what,
        ErrorId.TYPE,
        "elements of %d bytes do not consist of whole %s"
            .formatted(
                elementBytes,
                isOfStructs()
                    ? "structs of %d".formatted(valueBytes())
                    : "numbers of " + type.label()),
        "create the exchange with elements of a multiple of %d bytes".formatted(valueBytes()));
  }

  private boolean isOfStructs() {
    return operator != null && operator.isOfStructs();
  }

  /** Bytes that are combined at once: of a number, or of a struct. */
  int valueBytes() {
    return isOfStructs() ? operator.elementBytes() : type.bytes();
  }

  /** The alignment on a GPU of what is combined: a power of two. */
  public int alignment() {
    return Math.min(16, Integer.lowestOneBit(valueBytes()));
  }

  /** True if ranks combine copies by it: scalars of pre-multiplied sums are each rank's own. */
  boolean combinesCopies() {
    return operator == null || operator.isFunction();
  }

  /** The call that ranks compare, without a count. */
  long shape(Device.Kind kind) {
    return operator == null
        ? CallShape.of(Operation.REDUCE_SCATTER, type, op, 0)
        : CallShape.withFunction(
            CallShape.of(Operation.REDUCE_SCATTER, type, operator, 0), operator.mark(kind));
  }

  /** The signature of that call. */
  int signature(Device.Kind kind) {
    return operator == null
        ? CallSignature.of(shape(kind), 0)
        : CallSignature.of(shape(kind), 0, operator);
  }

  /** Names the reduction of a shape, for errors. */
  static String text(long shape) {
    int function = CallShape.function(shape);
    return "%s (%s)"
        .formatted(
            CallShape.type(shape).label(),
            function == 0 ? CallShape.op(shape).label() : "function %04x".formatted(function));
  }
}
