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

  /** The common name of the ranks of one node: the clique, or the host if there is no clique. */
  public String domain() {
    return fabric.isEmpty() ? hostId : fabric;
  }
}
