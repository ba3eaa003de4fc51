package org.nccl4j.api.bootstrap;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.time.Duration;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Objects;
import org.nccl4j.api.bootstrap.root.RootPartition;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;

/**
 * One rank's call to join a communicator.
 *
 * @param nRanks number of ranks, the same on all
 * @param ids one for each root, the same in the same order on all ranks; valid for one communicator
 * @param rank this rank, 0 to nRanks - 1
 * @param deadline for bootstrap and creation together; afterwards for each exchange
 * @param options the sockets' settings
 */
public record JoinRequest(
    int nRanks, List<BootstrapId> ids, int rank, Duration deadline, BootstrapOptions options) {

  /** More than any machine has; tables of every rank have a line for each. */
  public static final int MOST_RANKS = 1 << 20;

  /** Checks the range of rank and deadline, and the ids' number. */
  public JoinRequest {
    ids = List.copyOf(ids);
    Objects.requireNonNull(options);
    if (nRanks < 1 || rank < 0 || rank >= nRanks) {
      throw new InvalidArgumentException(
          ErrorId.RANK,
          "rank " + rank + " is not one of " + nRanks + " ranks",
          "pass the number of ranks, at least 1, and a rank from 0 to one less");
    }
    if (nRanks > MOST_RANKS) {
      throw new InvalidArgumentException(
          ErrorId.RANK,
          "a communicator of %d ranks".formatted(nRanks),
          "pass the number of ranks, at most %d".formatted(MOST_RANKS));
    }
    if (deadline.isNegative() || deadline.isZero()) {
      throw new InvalidArgumentException(
          ErrorId.SETTING, "the deadline is " + deadline, "pass a duration above 0");
    }
    if (ids.isEmpty() || ids.size() > nRanks) {
      throw new InvalidArgumentException(
          ErrorId.UNIQUE_ID,
          "%d unique ids for %d ranks".formatted(ids.size(), nRanks),
          "pass at least one id and at most one for each rank; one for several hundred ranks is"
              + " enough");
    }
    if (ids.stream().map(id -> HexFormat.of().formatHex(id.encode())).distinct().count()
        < ids.size()) {
      throw new InvalidArgumentException(
          ErrorId.UNIQUE_ID,
          "two of the %d unique ids are the same".formatted(ids.size()),
          "create each with its own call, and unset NCCL_COMM_ID, with which all are the same");
    }
  }

  /** With one root. */
  public JoinRequest(
      int nRanks, BootstrapId id, int rank, Duration deadline, BootstrapOptions options) {
    this(nRanks, List.of(id), rank, deadline, options);
  }

  RootPartition roots() {
    return new RootPartition(nRanks, ids.size());
  }

  /**
   * Returns the secret that the ranks of this communicator share: the id's, or one made of all
   * ids'.
   */
  byte[] secret() {
    if (ids.size() == 1) {
      return ids.get(0).secret();
    }
    try {
      MessageDigest hash = MessageDigest.getInstance("SHA-256");
      hash.update("nccl4j ids\n".getBytes(StandardCharsets.UTF_8));
      ids.forEach(id -> hash.update(id.secret()));
      return Arrays.copyOf(hash.digest(), BootstrapId.SECRET_BYTES);
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("every Java platform has SHA-256", e);
    }
  }
}
