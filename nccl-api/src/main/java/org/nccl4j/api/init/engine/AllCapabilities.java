package org.nccl4j.api.init.engine;

import java.lang.System.Logger;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import org.nccl4j.api.init.peers.HostLayout;
import org.nccl4j.api.init.probe.Probing;
import org.nccl4j.api.plan.cost.CommunicatorProfile;
import org.nccl4j.api.plan.cost.RankPlacement;
import org.nccl4j.api.plan.cost.TunedTable;
import org.nccl4j.api.window.UnreachedPairs;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.kernel.KernelDevice.BlockRoom;

/**
 * The capabilities of all ranks of a communicator, and what they have in common.
 *
 * @param ranks by rank
 */
public record AllCapabilities(List<RankCapabilities> ranks) {
  private static final Logger LOG = DebugLog.of("INIT");

  /** Decodes each rank's bytes once; ranks after each other that have the same share an object. */
  public static AllCapabilities fromBytes(List<byte[]> all) {
    List<RankCapabilities> ranks = new ArrayList<>();
    for (int rank = 0; rank < all.size(); rank++) {
      boolean same = rank > 0 && Arrays.equals(all.get(rank - 1), all.get(rank));
      ranks.add(same ? ranks.get(rank - 1) : RankCapabilities.fromBytes(all.get(rank)));
    }
    return new AllCapabilities(ranks);
  }

  /** Returns the pairs that do not reach each other. */
  public UnreachedPairs unreached() {
    return new UnreachedPairs(ranks.stream().map(RankCapabilities::unreached).toList());
  }

  /** Returns rank 0's message about a probe: see {@link Probing#shared}. */
  public String probed() {
    return ranks.get(0).probed();
  }

  /**
   * Returns the capabilities that all ranks have.
   *
   * @param self this rank
   * @param cores that the ranks of a host have together, on the host with the fewest
   * @param late whether GPUs of other hosts are connected when they first need it
   * @param tuned this rank's table
   * @throws InvalidUsageException if ranks have different tables or settings
   */
  public CommunicatorProfile common(
      int self, HostLayout hosts, int cores, boolean late, Optional<TunedTable> tuned) {
    RankCapabilities first = ranks.get(0);
    checkAlike();
    CommunicatorProfile common =
        new CommunicatorProfile(
            ranks.size(),
            first.kind(),
            ranks.stream().allMatch(rank -> rank.model().equals(first.model()))
                ? first.model()
                : "",
            ranks.stream().allMatch(RankCapabilities::reach),
            ranks.stream().allMatch(RankCapabilities::nvlink),
            new RankPlacement(
                    hosts.ranks(),
                    ranks.stream().anyMatch(RankCapabilities::carried),
                    ranks.stream().mapToInt(RankCapabilities::channels).min().orElseThrow(),
                    ranks.stream().allMatch(RankCapabilities::lines),
                    ranks.stream().allMatch(rank -> rank.network().equals(first.network()))
                        ? first.network()
                        : "")
                .withPairChannels(
                    ranks.stream().mapToInt(RankCapabilities::pairChannels).min().orElseThrow())
                .withLate(late),
            Optional.empty(),
            tuned,
            cores,
            ranks.stream().map(RankCapabilities::room).reduce(BlockRoom::least).orElseThrow());
    if (self == 0 && common.spread().carried()) {
      TuningSettings.warnings(ranks.stream().map(RankCapabilities::settings).toList())
          .forEach(warning -> LOG.log(Logger.Level.WARNING, warning));
    }
    tuned.ifPresent(table -> warn(self, table, first.model(), common));
    return common.isAlike()
        ? tuned.or(() -> Probing.result(first.probed())).map(common::with).orElse(common)
        : common;
  }

  private void checkAlike() {
    RankCapabilities first = ranks.get(0);
    for (int rank = 1; rank < ranks.size(); rank++) {
      if (ranks.get(rank).equals(ranks.get(rank - 1))) {
        continue;
      }
      first.settings().check(0, ranks.get(rank).settings(), rank);
      if (!ranks.get(rank).table().equals(first.table())) {
        throw new InvalidUsageException(
            ErrorId.SETTINGS_DIFFER,
            ("ranks 0 and %d have different tables of measured times and would choose different"
                    + " algorithms")
                .formatted(rank),
            "give all ranks the same file in NCCL4J_COSTS_FILE, or none");
      }
    }
  }

  /** Says why a table is not used: rank 0 if it is the hosts, which all ranks know. */
  private static void warn(int self, TunedTable table, String model, CommunicatorProfile common) {
    int hosts = common.spread().hosts();
    String inTables = common.inTables();
    if (hosts > 1 && !table.hasTimes(inTables)) {
      if (self == 0) {
        LOG.log(
            Logger.Level.WARNING,
            "{0} (NCCL4J_COSTS_FILE) is not used: {1}, and these ranks are on {2} hosts; {3}, or"
                + " choose algorithms between hosts by NCCL_ALGO or NCCL_TUNER_PLUGIN",
            table.file(),
            inTables.isEmpty()
                ? "a table has times of hosts with as many ranks each and one network"
                : "it has no times of " + inTables,
            hosts,
            inTables.isEmpty() ? "unset it" : "measure them with ./nccl tune --launched");
      }
    } else if (!table.device().equals(model)) {
      LOG.log(
          Logger.Level.WARNING,
          "{0} has times of {1}, and is not used for {2}",
          table.file(),
          table.device(),
          model);
    }
  }
}
