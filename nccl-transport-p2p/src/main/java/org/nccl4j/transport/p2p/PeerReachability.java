package org.nccl4j.transport.p2p;

import java.util.Optional;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.Support;
import org.nccl4j.api.spi.TransportContext;
import org.nccl4j.device.Device;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.shm.SharedSegment;

/** Finds the peers that share memory with a rank. */
final class PeerReachability {
  private PeerReachability() {}

  /** Returns whether a peer is in the same process. */
  static Support inProcess(TransportContext context, PeerInfo peer) {
    PeerInfo self = context.peers().get(context.rank());
    if (context.get(Settings.NCCL_P2P_DISABLE)) {
      return Support.no("NCCL_P2P_DISABLE is set");
    }
    if (!self.processId().equals(peer.processId())) {
      return Support.no("rank %d is another process".formatted(peer.rank()));
    }
    return onHost(self, peer, "same process");
  }

  /** Returns whether a peer is on the same machine, in reach of its memory. */
  static Support onMachine(TransportContext context, PeerInfo peer) {
    PeerInfo self = context.peers().get(context.rank());
    if (context.get(Settings.NCCL_SHM_DISABLE)) {
      return Support.no("NCCL_SHM_DISABLE is set");
    }
    Support machine = self.hostSharing(peer);
    if (!machine.possible()) {
      return machine;
    }
    Optional<String> obstacle = SharedSegment.obstacle();
    if (obstacle.isPresent()) {
      return Support.no(obstacle.get());
    }
    return self.deviceKind() == Device.Kind.CUDA && peer.deviceKind() == Device.Kind.CUDA
        ? Support.yes("same machine, through pinned memory of the host")
        : onHost(self, peer, "same machine");
  }

  /** Returns whether a peer's GPU and a rank's can load from and store to each other's memory. */
  static Support betweenGpus(TransportContext context, CudaDevice device, PeerInfo peer) {
    PeerInfo self = context.peers().get(context.rank());
    if (context.get(Settings.NCCL_P2P_DISABLE)) {
      return Support.no("NCCL_P2P_DISABLE is set");
    }
    if (peer.deviceKind() != Device.Kind.CUDA) {
      return Support.no("rank %d is on the host device".formatted(peer.rank()));
    }
    Support near = context.directAccess(peer);
    if (!near.possible()) {
      return near;
    }
    if (self.processId().equals(peer.processId())) {
      return hasAccess(device, peer)
          ? Support.yes("same process, GPUs with peer access")
          : Support.no("%s has no peer access to %s".formatted(device, peer.deviceId()));
    }
    if (self.sharesFabric(peer) && !self.hostId().equals(peer.hostId())) {
      return Support.yes("same NVLink clique, by fabric handle");
    }
    if (!self.sharesFabric(peer)) {
      Support machine = self.hostSharing(peer);
      if (!machine.possible()) {
        return machine;
      }
    }
    String by = self.sharesFabric(peer) ? "fabric handle" : "file descriptor";
    return hasAccess(device, peer)
        ? Support.yes("same machine, by " + by)
        : Support.no("%s has no peer access to %s".formatted(device, peer.deviceId()));
  }

  private static boolean hasAccess(CudaDevice device, PeerInfo peer) {
    return device.mayAccess(peer.deviceId());
  }

  private static Support onHost(PeerInfo self, PeerInfo peer, String reason) {
    for (PeerInfo rank : new PeerInfo[] {self, peer}) {
      if (rank.deviceKind() != Device.Kind.HOST) {
        return Support.no(
            "rank %d's memory is a GPU's (%s)".formatted(rank.rank(), rank.deviceId()));
      }
    }
    return Support.yes(reason);
  }
}
