package org.nccl4j.api.init;

import java.lang.System.Logger;
import java.util.Optional;
import org.nccl4j.api.init.engine.NvlsSetup;
import org.nccl4j.api.init.peers.HostLayout;
import org.nccl4j.api.settings.GpuSettings;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.Device;

/**
 * This rank's vote on whether a split shares connections. A rank that requests sharing gets it if
 * possible. By default connections are shared too, unless the split has enough ranks for NVLS,
 * which would be lost. If they are not shared, the log gives the reason.
 *
 * <p>A vote is the number of ranks on each machine from which on a split has connections of its
 * own: the ranks of a split are known only after all have voted.
 */
final class SplitSharePolicy {
  private static final Logger LOG = DebugLog.of("INIT");
  private static final int ALWAYS = 1; // of NCCL_COMM_SPLIT_SHARE_RESOURCES
  private static final int NEVER = 0;

  /** The vote for connections of its own. */
  static final int OWN = 0;

  private final CommunicatorState parent;

  SplitSharePolicy(CommunicatorState parent) {
    this.parent = parent;
  }

  /**
   * This rank's vote when the parent is split.
   *
   * @param share what the user has said; empty where the settings decide
   * @param settings of the split
   */
  int vote(Optional<Boolean> share, Settings settings) {
    int setting = settings.get(GpuSettings.NCCL_COMM_SPLIT_SHARE_RESOURCES);
    boolean asked = share.isPresent() || setting == ALWAYS;
    if (!share.orElse(setting != NEVER) || !isPossible(asked)) {
      return OWN;
    }
    return asked || !hasNvls()
        ? Integer.MAX_VALUE
        : NvlsSetup.fewestRanks(parent.device(), settings);
  }

  /**
   * True if a split shares connections by a vote.
   *
   * @param hosts of the split's ranks
   */
  boolean isShared(int vote, HostLayout hosts) {
    boolean shares = hosts.fewestRanks() < vote;
    if (!shares && vote != OWN) {
      tell(parent.request().logLevel("INIT"), "it has NVLS, which is not shared");
    }
    return shares;
  }

  /**
   * True if this rank can.
   *
   * @param asked whether the user has asked for it
   */
  boolean isPossible(boolean asked) {
    Optional<String> obstacle = parent.engine().kernels().sharingObstacle();
    obstacle.ifPresent(
        why -> tell(asked ? Logger.Level.WARNING : parent.request().logLevel("INIT"), why));
    return obstacle.isEmpty();
  }

  private void tell(Logger.Level level, String why) {
    LOG.log(
        level,
        "Splits of communicator {0} have their own connections: on rank {1} {2}",
        parent.name(),
        parent.rank(),
        why);
  }

  /** On GPUs large reductions by NVLS are far ahead of others; the host's is for trying it out. */
  private boolean hasNvls() {
    return parent.device().kind() == Device.Kind.CUDA
        && parent.engine().place().nvls().place() != null;
  }
}
