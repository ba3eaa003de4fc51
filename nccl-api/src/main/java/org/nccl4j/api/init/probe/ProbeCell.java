package org.nccl4j.api.init.probe;

import org.nccl4j.api.plan.cost.AlgorithmChoice;
import org.nccl4j.device.DataType;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.kernel.CallShape;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/**
 * One time to measure: an operation of a size by an algorithm and a protocol.
 *
 * @param bytes of the whole data
 */
record ProbeCell(Operation operation, Algorithm algorithm, Protocol protocol, long bytes) {
  /** The operation of float32 sums, with root 0. */
  long shape() {
    return CallShape.of(operation, DataType.FLOAT32, RedOp.SUM, 0);
  }

  long count(int nRanks) {
    return bytes / DataType.FLOAT32.bytes() / operation.wholes(nRanks);
  }

  AlgorithmChoice choice() {
    return new AlgorithmChoice(algorithm, protocol, 0);
  }

  /** True if it is the same of fewer bytes than another cell. */
  boolean isSmaller(ProbeCell other) {
    return operation == other.operation
        && algorithm == other.algorithm
        && protocol == other.protocol
        && bytes < other.bytes;
  }

  /** The beginning of the cell's line in a table of measured times. */
  String line(int nRanks) {
    return String.join(
        " ", Integer.toString(nRanks), operation.label(), algorithm.label(), protocol.label());
  }
}
