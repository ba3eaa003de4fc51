package org.nccl4j.api.bootstrap;

import java.time.Duration;
import java.util.Objects;
import org.nccl4j.device.InvalidArgumentException;

/**
 * How a rank joins.
 *
 * @param nRanks how many ranks there will be, the same for all
 * @param id the same for all; good for one communicator
 * @param rank this one, 0 to nRanks - 1
 * @param deadline how long forming may take, and afterwards each exchange
 * @param options the sockets' settings
 */
public record JoinRequest(
    int nRanks, BootstrapId id, int rank, Duration deadline, BootstrapOptions options) {

  /** Checks the range of rank and deadline. */
  public JoinRequest {
    Objects.requireNonNull(id);
    Objects.requireNonNull(options);
    if (nRanks < 1 || rank < 0 || rank >= nRanks) {
      throw new InvalidArgumentException(
          "rank " + rank + " is not one of " + nRanks + " ranks",
          "pass the number of ranks, at least 1, and a rank from 0 to one less");
    }
    if (deadline.isNegative() || deadline.isZero()) {
      throw new InvalidArgumentException(
          "the deadline is " + deadline, "pass a duration longer than nothing");
    }
  }
}
