package org.nccl4j.api.group;

import org.nccl4j.device.Arguments;
import org.nccl4j.device.DataType;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.ReductionOperator;
import org.nccl4j.operation.Operation;

/** Checks that an operation is of a kind that can be prepared or explained. */
final class OperationCheck {
  private OperationCheck() {}

  /** Throws for an operation without a plan of its own. */
  static void requireCollective(Operation operation, DataType type) {
    Arguments.notNull(type, "type of the elements");
    if (!Arguments.notNull(operation, "operation").isCollective()) {
      throw new InvalidArgumentException(
          ErrorId.ARGUMENT,
          "%s has no plan of its own and cannot be prepared".formatted(operation.label()),
          "prepare one of " + Operation.collectives());
    }
  }

  /** Throws for an operation that no operator reduces. */
  static void requireReduction(Operation operation, DataType type, ReductionOperator operator) {
    Arguments.notNull(type, "type of the elements");
    Arguments.notNull(operator, "operator");
    if (!Arguments.notNull(operation, "operation").reduces()) {
      throw new InvalidArgumentException(
          ErrorId.ARGUMENT,
          "%s does not reduce by an operator".formatted(operation.label()),
          "prepare ALL_REDUCE, REDUCE or REDUCE_SCATTER");
    }
  }

  /** Throws for an operation without algorithms, or a negative count. */
  static void requirePlanned(Operation operation, long count, DataType type) {
    Arguments.notNull(type, "type of the elements");
    if (!Operation.planned().contains(Arguments.notNull(operation, "operation"))) {
      throw new InvalidArgumentException(
          ErrorId.ARGUMENT,
          "%s has no algorithms".formatted(operation.label()),
          "pass one of " + Operation.planned());
    }
    Arguments.count(count);
  }
}
