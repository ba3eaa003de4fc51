package org.nccl4j.api.init;

import java.lang.System.Logger;
import java.util.Optional;
import org.nccl4j.api.settings.GpuSettings;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.Device;

/**
 * This rank's vote on whether a split shares connections. A rank that requests sharing gets it if
 * possible. By default connections are shared too, unless NVLS would be lost. If they are not
 * shared, the log gives the reason.
 */
final class SplitSharePolicy {
  private static final Logger LOG = DebugLog.of("INIT");
  private static final int ALWAYS = 1; // of NCCL_COMM_SPLIT_SHARE_RESOURCES
  private static final int NEVER = 0;

  private final CommunicatorState parent;

  SplitSharePolicy(CommunicatorState parent) {
    this.parent = parent;
  }

  /**
   * True if this rank is for it when the parent is split.
   *
   * @param share what the user has said; empty where the settings decide
   * @param settings of the split
   */
  boolean isForSplit(Optional<Boolean> share, Settings settings) {
    int setting = settings.get(GpuSettings.NCCL_COMM_SPLIT_SHARE_RESOURCES);
    return share.orElse(setting != NEVER) && isPossible(share.isPresent() || setting == ALWAYS);
  }

  /**
   * True if this rank can.
   *
   * @param asked whether the user has asked for it; else it is not done where NVLS is lost
   */
  boolean isPossible(boolean asked) {
    Optional<String> obstacle = parent.engine().kernels().sharingObstacle();
    if (!asked) {
      obstacle = obstacle.or(this::loss);
    }
    obstacle.ifPresent(
        why ->
            LOG.log(
                asked ? Logger.Level.WARNING : parent.request().logLevel("INIT"),
                "Splits of communicator {0} have their own connections: on rank {1} {2}",
                parent.name(),
                parent.rank(),
                why));
    return obstacle.isEmpty();
  }

  /** On GPUs large reductions by NVLS are far ahead of others; the host's is for trying it out. */
  private Optional<String> loss() {
    return parent.device().kind() == Device.Kind.CUDA
            && parent.engine().place().nvls().place() != null
        ? Optional.of("it has NVLS, which is not shared")
        : Optional.empty();
  }
}
