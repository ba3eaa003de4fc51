package org.nccl4j.api.plan.cost;

import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Protocol;

/**
 * An algorithm and protocol of an operation.
 *
 * @param microseconds predicted; infinite for what a tuner forbids
 */
public record AlgorithmChoice(Algorithm algorithm, Protocol protocol, double microseconds) {
  /** The same with another time. */
  public AlgorithmChoice taking(double newMicroseconds) {
    return new AlgorithmChoice(algorithm, protocol, newMicroseconds);
  }

  /** True if data go through slots in Simple: over connections, and not in lines. */
  public boolean hasSlots() {
    return !algorithm.isBetweenWindows() && protocol == Protocol.SIMPLE;
  }

  /** Returns the choice in the words of messages, such as Ring LL. */
  @Override
  public String toString() {
    return algorithm.label() + " " + protocol.label();
  }
}
