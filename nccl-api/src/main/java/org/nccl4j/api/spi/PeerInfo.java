package org.nccl4j.api.spi;

import java.util.List;
import org.nccl4j.device.Device;

/**
 * Facts about each rank that all ranks know before there are connections.
 *
 * @param rank 0 to ranks - 1
 * @param hostId the same for ranks of one host (its name and boot id or, where set, NCCL_HOSTID),
 *     different otherwise
 * @param ipcNamespace the same for processes that can pass file descriptors to each other: they
 *     share /dev/shm, or java.io.tmpdir where /dev/shm cannot be used, and the user namespace.
 *     Containers with the same value may differ in all other files and in their networks
 * @param processId the same for ranks of one JVM, different otherwise
 * @param userId the numeric user that the process runs as
 * @param deviceKind host or CUDA
 * @param deviceId the device: on CUDA its bus id (with the UUID of a MIG instance), on the host
 *     "host"
 * @param nets names of the networks that the rank can use, best first
 * @param fabric the same for ranks whose GPUs map each other's memory by fabric handles, also from
 *     host to host (a clique of multi-node NVLink); "" on all ranks of a communicator unless each
 *     rank has one
 */
public record PeerInfo(
    int rank,
    String hostId,
    String ipcNamespace,
    String processId,
    long userId,
    Device.Kind deviceKind,
    String deviceId,
    List<String> nets,
    String fabric) {
  /** Copies the list. */
  public PeerInfo {
    nets = List.copyOf(nets);
  }

  /** A rank whose memory other hosts cannot map. */
  public PeerInfo(
      int rank,
      String hostId,
      String ipcNamespace,
      String processId,
      long userId,
      Device.Kind deviceKind,
      String deviceId,
      List<String> nets) {
    this(rank, hostId, ipcNamespace, processId, userId, deviceKind, deviceId, nets, "");
  }

  /** A rank without a network. */
  public PeerInfo(
      int rank,
      String hostId,
      String ipcNamespace,
      String processId,
      long userId,
      Device.Kind deviceKind,
      String deviceId) {
    this(rank, hostId, ipcNamespace, processId, userId, deviceKind, deviceId, List.of());
  }

  /** Returns this rank's facts with the rank number of another communicator. */
  public PeerInfo withRank(int other) {
    return new PeerInfo(
        other, hostId, ipcNamespace, processId, userId, deviceKind, deviceId, nets, fabric);
  }

  /** Returns this rank's facts with another clique, or none. */
  public PeerInfo withFabric(String clique) {
    return new PeerInfo(
        rank, hostId, ipcNamespace, processId, userId, deviceKind, deviceId, nets, clique);
  }

  /** True if the ranks map each other's memory with fabric handles. */
  public boolean sharesFabric(PeerInfo other) {
    return !fabric.isEmpty() && fabric.equals(other.fabric);
  }

  /**
   * True if processes of the two ranks can pass file descriptors to each other, and so share memory
   * of the host and of GPUs: they are on one host, of one user, and in containers that share
   * /dev/shm and the user namespace. Ranks of one clique share their GPUs' memory without it.
   */
  public boolean sharesHost(PeerInfo other) {
    return hostId.equals(other.hostId)
        && userId == other.userId
        && ipcNamespace.equals(other.ipcNamespace);
  }

  /** Returns the answer of {@link #sharesHost} with its reason. */
  public Support hostSharing(PeerInfo other) {
    if (sharesHost(other)) {
      return Support.yes("same machine");
    }
    if (!hostId.equals(other.hostId)) {
      return Support.no("rank %d is on another machine".formatted(other.rank));
    }
    return Support.no(
        userId != other.userId
            ? "rank %d runs as user %d, this rank as user %d"
                .formatted(other.rank, other.userId, userId)
            : "rank %d is in another container, which does not share /dev/shm (docker run --ipc=host)"
                .formatted(other.rank));
  }

  /**
   * The common name of the ranks of one node, which reach each other's memory: the clique, or else
   * all that {@link #sharesHost} compares. Rings, trees, the topology and costs count nodes; ranks
   * of one host in containers that share no memory are on several.
   */
  public String node() {
    return fabric.isEmpty() ? String.join(" ", hostId, ipcNamespace, "" + userId) : fabric;
  }
}
