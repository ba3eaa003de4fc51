package org.nccl4j.api.plan.cost;

import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/**
 * Costs among ranks of one host: algorithms that do not suit it, since what they save are messages
 * between hosts, are taken only if the user names them.
 *
 * @param base the predicted costs
 */
record OneHostCosts(CostModel base) implements CostOverlay {
  @Override
  public double microseconds(
      Operation operation, Algorithm algorithm, Protocol protocol, long bytes) {
    double predicted = base.microseconds(operation, algorithm, protocol, bytes);
    return base.suitsOneHost(operation, algorithm) ? predicted : ONLY_WHERE_ASKED + predicted;
  }
}
