package org.nccl4j.api.init.peers;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.nccl4j.api.bootstrap.Bootstrap;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.TransportProvider;
import org.nccl4j.device.Device;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.os.AllowedCores;
import org.nccl4j.device.os.KernelRandom;

/** Exchanges the hellos of all ranks and derives the communicator's membership from them. */
public final class RankExchange {
  private RankExchange() {}

  /**
   * Exchanges hellos; collective.
   *
   * @param providers of this rank's transports
   * @param nets names of this rank's networks
   * @throws InvalidUsageException if ranks share a GPU and the settings do not allow it
   */
  public static Membership meet(
      InitRequest request,
      List<TransportProvider> providers,
      List<String> nets,
      Bootstrap bootstrap) {
    PeerInfo self =
        LocalIdentity.of(
            bootstrap.rank(), request.device(), request.settings().get(Settings.NCCL_HOSTID), nets);
    List<String> names = providers.stream().map(TransportProvider::name).toList();
    PeerHello hello =
        new PeerHello(
            self,
            AllowedCores.ofThisThread(),
            names,
            bootstrap.meetingPoint(),
            Cliques.wish(request),
            KernelRandom.number());
    List<PeerHello> hellos = new ArrayList<>();
    for (byte[] bytes : bootstrap.allGather(hello.toBytes())) {
      hellos.add(PeerHello.fromBytes(hellos.size(), bytes));
    }
    refuseSharedGpu(request, bootstrap.rank(), hellos.stream().map(PeerHello::peer).toList());
    List<byte[]> points = hellos.stream().map(PeerHello::meetingPoint).toList();
    List<PeerInfo> peers = Cliques.of(request, providers, hellos, bootstrap);
    PeerInfo own = peers.get(bootstrap.rank());
    obstacle(own, peers).ifPresent(why -> request.info(own.rank()).tell("INIT", () -> why));
    return new Membership(
        peers,
        hellos.stream().map(PeerHello::cores).toList(),
        points,
        "",
        number(bootstrap.secret(), hellos.get(0).chance()));
  }

  /** Returns why a rank shares no memory with ranks of its machine; empty if it does with all. */
  static Optional<String> obstacle(PeerInfo own, List<PeerInfo> peers) {
    List<PeerInfo> apart =
        peers.stream()
            .filter(peer -> peer.hostId().equals(own.hostId()))
            .filter(peer -> !own.sharesHost(peer))
            .toList();
    if (apart.isEmpty()) {
      return Optional.empty();
    }
    List<Long> users =
        apart.stream()
            .map(PeerInfo::userId)
            .filter(user -> user != own.userId())
            .distinct()
            .toList();
    List<String> reasons = new ArrayList<>();
    if (!users.isEmpty()) {
      reasons.add(
          "they run as users %s and this rank as user %d (give all ranks one user)"
              .formatted(users, own.userId()));
    }
    if (apart.stream().anyMatch(peer -> !peer.ipcNamespace().equals(own.ipcNamespace()))) {
      reasons.add(
          "they are in other containers, which share neither /dev/shm nor the user namespace with"
              + " this one (docker run --ipc=host, hostIPC in Kubernetes)");
    }
    return Optional.of(
        "shares no memory of the host with ranks %s of its machine, and %s: %s"
            .formatted(
                apart.stream().map(PeerInfo::rank).toList(),
                apart.stream().allMatch(own::sharesFabric)
                    ? "reaches their GPUs by NVLink's fabric handles"
                    : "a network connects them",
                String.join("; ", reasons)));
  }

  /**
   * Two ranks of one GPU wait for each other's kernels, which the GPU may not run at once; so that
   * has to be asked for.
   */
  private static void refuseSharedGpu(InitRequest request, int rank, List<PeerInfo> peers) {
    boolean allowed = request.settings().get(Settings.NCCL_MULTI_RANK_GPU_ENABLE);
    Map<String, Integer> ranks = new HashMap<>();
    for (PeerInfo peer : peers) {
      if (peer.deviceKind() != Device.Kind.CUDA) {
        continue;
      }
      Integer other = ranks.put(HostLayout.deviceOf(peer), peer.rank());
      if (other != null && !allowed) {
        throw new InvalidUsageException(
            ErrorId.SHARED_GPU,
            "ranks %d and %d of communicator %s both use GPU %s"
                .formatted(other, peer.rank(), request.name(), peer.deviceId()),
            "give each rank its own GPU, or set NCCL_MULTI_RANK_GPU_ENABLE=1");
      }
      if (other != null && peer.rank() == rank) {
        request
            .info(peer.rank())
            .tell(
                "INIT",
                () ->
                    ("shares its GPU with rank %d: the driver loads no kernel and frees no memory"
                                + " while a")
                            .formatted(other)
                        + " kernel of one waits for the other; call both from one thread, in"
                        + " groups");
      }
    }
  }

  /**
   * A number that tells nothing of the secret.
   *
   * @param chance communicators that are made one after the other may have one secret
   */
  private static long number(byte[] secret, long chance) {
    try {
      MessageDigest hash = MessageDigest.getInstance("SHA-256");
      hash.update("communicator".getBytes(StandardCharsets.UTF_8));
      hash.update(ByteBuffer.allocate(Long.BYTES).putLong(0, chance));
      return ByteBuffer.wrap(hash.digest(secret)).getLong();
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("every Java platform has SHA-256", e);
    }
  }
}
