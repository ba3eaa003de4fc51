package org.nccl4j.api.init.engine;

import java.lang.System.Logger.Level;
import java.util.List;
import java.util.Map;
import org.nccl4j.api.init.peers.InitRequest;
import org.nccl4j.api.init.peers.Membership;
import org.nccl4j.api.init.probe.KeptCopyTimes;
import org.nccl4j.api.init.probe.KeptCopyWays;
import org.nccl4j.api.init.topology.ChannelGraphs;
import org.nccl4j.api.plan.cost.CommunicatorProfile;
import org.nccl4j.api.settings.Environment;
import org.nccl4j.api.settings.GpuSettings;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.device.Device;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.kernel.KernelCommunicatorSpec;
import org.nccl4j.device.kernel.KernelCommunicatorSpec.SingleCopy;
import org.nccl4j.device.kernel.KernelDevice.BlockRoom;
import org.nccl4j.device.kernel.LaunchOptions;
import org.nccl4j.device.kernel.Nvls;
import org.nccl4j.device.kernel.PeerConnector;
import org.nccl4j.device.kernel.Progress;

/** Describes a rank's communicator to its kernels. */
public final class KernelSpecs {
  private static final int BETWEEN_PROCESSES_BYTES = 32 << 10;

  private KernelSpecs() {}

  /**
   * The memory that a rank's kernels use.
   *
   * @param sends connections to the other ranks, by rank
   * @param recvs connections from the other ranks, by rank
   * @param progress work on the processor for the connections
   * @param nvls the rank's place in NVLS, or null
   * @param connector makes the connections that there are not yet
   */
  public record Ends(
      List<Connection> sends,
      List<Connection> recvs,
      Progress progress,
      Nvls nvls,
      PeerConnector connector) {}

  /**
   * The description of a rank.
   *
   * @param facts that all ranks know
   */
  public static KernelCommunicatorSpec of(
      InitRequest request,
      int rank,
      Membership members,
      ConnectionLayout layout,
      ChannelGraphs graphs,
      CommunicatorProfile facts,
      Ends ends) {
    if (facts.kind() == Device.Kind.HOST) {
      KeptCopyWays.keepThoseOf(request, rank);
    }
    return new KernelCommunicatorSpec(
        request.name(),
        rank,
        members.peers().size(),
        layout,
        ends.sends(),
        ends.recvs(),
        graphs.rings(),
        graphs.trees(),
        members.layout().ranks(),
        facts.spread().carried(),
        members.coresBeside(rank),
        ends.progress(),
        request.operationTimeout(),
        ends.nvls(),
        options(request, facts.room()),
        ends.connector(),
        singleCopy(request, rank));
  }

  private static SingleCopy singleCopy(InitRequest request, int rank) {
    Level level = request.logLevel("P2P");
    return switch (request.settings().get(Settings.NCCL4J_SINGLE_COPY)) {
      case "all" ->
          new SingleCopy(
              SingleCopy.LEAST_BYTES, BETWEEN_PROCESSES_BYTES, SingleCopy.LEAST_BYTES, level);
      case "auto" ->
          new SingleCopy(
              SingleCopy.LEAST_BYTES,
              SingleCopy.MEASURED,
              SingleCopy.LEAST_BYTES,
              level,
              KeptCopyTimes.of(request, rank));
      case "threads" -> new SingleCopy(SingleCopy.LEAST_BYTES, SingleCopy.NEVER, level);
      default -> SingleCopy.OFF;
    };
  }

  private static LaunchOptions options(InitRequest request, BlockRoom room) {
    return new LaunchOptions(
        request.settings().get(GpuSettings.NCCL_CGA_CLUSTER_SIZE),
        request.settings().get(GpuSettings.NCCL_LAUNCH_ORDER_IMPLICIT),
        hasOneQueue(Environment.variables()),
        room.mostMessageBlocks(),
        request.settings().get(GpuSettings.NCCL4J_PRELOAD_KERNELS).types(),
        request.settings().get(GpuSettings.NCCL4J_NVRTC),
        request.settings().get(GpuSettings.NCCL4J_GROUP_FUSE));
  }

  /**
   * True if the CUDA driver has one queue to a GPU. The variable is the driver's, not a setting.
   */
  static boolean hasOneQueue(Map<String, String> variables) {
    return variables.getOrDefault("CUDA_DEVICE_MAX_CONNECTIONS", "").trim().equals("1");
  }
}
