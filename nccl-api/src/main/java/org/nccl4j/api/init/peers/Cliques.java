package org.nccl4j.api.init.peers;

import java.lang.System.Logger;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.function.Function;
import org.nccl4j.api.bootstrap.Bootstrap;
import org.nccl4j.api.settings.GpuSettings;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.TransportProvider;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.Device;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.cuda.memory.CudaShareableMemory;

/**
 * Multi-node NVLink: which ranks' GPUs one NVLink fabric connects from host to host, or between
 * containers of a host that share no memory, so that they map each other's memory by fabric
 * handles. All ranks of a communicator are in a clique, or it has none. The driver's answer is
 * tested: each rank maps memory of each other host and container of its clique; if one cannot, all
 * use a network, with a warning if a fabric of several hosts should work.
 */
final class Cliques {
  private static final Logger LOG = DebugLog.of("INIT");
  private static final int DEMANDED = 1;
  private static final String REMEDY =
      "check the IMEX channels (/dev/nvidia-caps-imex-channels) and daemons (nvidia-imex-ctl -N) of"
          + " the hosts";

  private final InitRequest request;
  private final List<PeerInfo> peers;
  private final Bootstrap bootstrap;
  private final boolean demanded;

  /** True if ranks of a machine are in containers that share no memory. */
  private final boolean contained;

  private Cliques(
      InitRequest request, List<PeerInfo> peers, Bootstrap bootstrap, boolean demanded) {
    this.request = request;
    this.peers = peers;
    this.bootstrap = bootstrap;
    this.demanded = demanded;
    this.contained = count(PeerInfo::node) > count(PeerInfo::hostId);
  }

  private long count(Function<PeerInfo, String> name) {
    return peers.stream().map(name).distinct().count();
  }

  /** Returns the value of NCCL_MNNVL_ENABLE that a rank sends in its {@link PeerHello}. */
  static int wish(InitRequest request) {
    return request.settings().get(GpuSettings.NCCL_MNNVL_ENABLE);
  }

  /**
   * The ranks with their cliques; collective. Nothing is asked of ranks that all share memory
   * unless it is demanded.
   *
   * @param providers of this rank's transports
   * @param hellos of all ranks
   * @throws InvalidUsageException on all ranks where one demands cliques and there are none
   */
  static List<PeerInfo> of(
      InitRequest request,
      List<TransportProvider> providers,
      List<PeerHello> hellos,
      Bootstrap bootstrap) {
    List<PeerInfo> peers = hellos.stream().map(PeerHello::peer).toList();
    boolean demanded = hellos.stream().anyMatch(hello -> hello.mnnvl() == DEMANDED);
    boolean wanted = hellos.stream().allMatch(hello -> hello.mnnvl() != 0);
    boolean gpus = peers.stream().allMatch(peer -> peer.deviceKind() == Device.Kind.CUDA);
    boolean apart = peers.stream().map(PeerInfo::node).distinct().count() > 1;
    if (!gpus || peers.size() == 1 || !(demanded || (wanted && apart))) {
      return peers;
    }
    boolean shares = providers.stream().anyMatch(TransportProvider::sharesMemory);
    return new Cliques(request, peers, bootstrap, demanded).agree(shares);
  }

  private List<PeerInfo> agree(boolean shares) {
    CudaDevice device = (CudaDevice) request.device();
    String machine = contained ? peers.get(bootstrap.rank()).hostId() : "";
    FabricInfo mine = FabricInfo.of(device, request.settings(), shares, machine);
    CudaShareableMemory memory = null;
    try {
      if (!mine.clique().isEmpty()) {
        try {
          memory = CudaShareableMemory.createForFabric(device.gpu());
          mine = mine.with(memory.exportFabricHandle(), memory.size());
        } catch (NcclException e) {
          mine = mine.hindered(e.problem());
        }
      }
      List<FabricInfo> claims = new ArrayList<>();
      for (byte[] bytes : bootstrap.allGather(mine.toBytes())) {
        claims.add(FabricInfo.fromBytes(claims.size(), bytes));
      }
      return agreed(device, claims);
    } finally {
      if (memory != null) {
        memory.close();
      }
    }
  }

  private List<PeerInfo> agreed(CudaDevice device, List<FabricInfo> claims) {
    for (int rank = 0; rank < claims.size(); rank++) {
      if (claims.get(rank).clique().isEmpty()) {
        return without(rank, claims.get(rank).problem(), /* broken= */ false);
      }
    }
    if (!demanded && !connectsNodes(claims)) {
      LOG.log(
          request.logLevel("INIT"),
          "communicator {0} does not use multi-node NVLink: no clique has ranks of two hosts or"
              + " containers",
          request.name());
      return peers;
    }
    for (int rank = 0; rank < claims.size(); rank++) {
      if (!claims.get(rank).problem().isEmpty()) {
        return without(rank, claims.get(rank).problem(), !claims.get(rank).endsAtMachine());
      }
    }
    String failure = tryOthers(device, claims).orElse("");
    List<byte[]> failures = bootstrap.allGather(failure.getBytes(StandardCharsets.UTF_8));
    for (int rank = 0; rank < failures.size(); rank++) {
      if (failures.get(rank).length > 0) {
        String why = new String(failures.get(rank), StandardCharsets.UTF_8);
        return without(rank, why, !claims.get(rank).endsAtMachine());
      }
    }
    List<PeerInfo> joined = new ArrayList<>();
    peers.forEach(peer -> joined.add(peer.withFabric(claims.get(peer.rank()).clique())));
    PeerInfo self = joined.get(bootstrap.rank());
    LOG.log(
        request.logLevel("INIT", "P2P"),
        "rank {0}: multi-node NVLink, clique {1} of {2} ranks on {3} hosts",
        self.rank(),
        self.fabric(),
        joined.stream().filter(self::sharesFabric).count(),
        joined.stream().filter(self::sharesFabric).map(PeerInfo::hostId).distinct().count());
    return joined;
  }

  private boolean connectsNodes(List<FabricInfo> claims) {
    return peers.stream()
        .anyMatch(
            a ->
                peers.stream()
                    .anyMatch(b -> !a.sharesHost(b) && areTogether(claims, a.rank(), b.rank())));
  }

  private static boolean areTogether(List<FabricInfo> claims, int a, int b) {
    return claims.get(a).clique().equals(claims.get(b).clique());
  }

  /** Maps memory of one rank of each other node of the clique, and of another process of this. */
  private Optional<String> tryOthers(CudaDevice device, List<FabricInfo> claims) {
    PeerInfo self = peers.get(bootstrap.rank());
    Set<String> tried = new HashSet<>();
    for (PeerInfo peer : peers) {
      boolean here = peer.processId().equals(self.processId());
      if (!here && areTogether(claims, self.rank(), peer.rank()) && tried.add(peer.node())) {
        FabricInfo claim = claims.get(peer.rank());
        try {
          CudaShareableMemory.importFrom(device.gpu(), claim.handle(), claim.bytes()).close();
        } catch (NcclException e) {
          return Optional.of("memory of rank %d: %s".formatted(peer.rank(), e.problem()));
        }
      }
    }
    return Optional.empty();
  }

  /**
   * No cliques.
   *
   * @param broken whether a fabric of several hosts is there and should work
   */
  private List<PeerInfo> without(int rank, String why, boolean broken) {
    if (demanded) {
      throw new InvalidUsageException(
          ErrorId.UNSUPPORTED,
          "communicator %s cannot have the multi-node NVLink that NCCL_MNNVL_ENABLE=1 demands: rank %d: %s"
              .formatted(request.name(), rank, why),
          REMEDY + ", or unset NCCL_MNNVL_ENABLE");
    }
    if (broken && bootstrap.rank() == 0) {
      LOG.log(
          Logger.Level.WARNING,
          "communicator {0} uses a network between hosts or containers that NVLink connects, which"
              + " is slower: rank {1}: {2}; {3}, or set NCCL_MNNVL_ENABLE=0 to use the network without"
              + " this warning",
          request.name(),
          rank,
          why,
          REMEDY);
    } else {
      LOG.log(
          request.logLevel("INIT"),
          "communicator {0} does not use multi-node NVLink: rank {1}: {2}",
          request.name(),
          rank,
          why);
    }
    return peers;
  }
}
