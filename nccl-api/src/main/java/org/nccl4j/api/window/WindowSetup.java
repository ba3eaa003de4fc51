package org.nccl4j.api.window;

import java.lang.System.Logger.Level;
import java.util.List;
import org.nccl4j.api.bootstrap.Bootstrap;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.device.Device;

/**
 * The inputs of a window registry.
 *
 * @param name of the communicator
 * @param peers all ranks
 * @param unreached pairs of them that have no windows in common though they share a machine
 * @param stride the value of NCCL_WIN_STRIDE, or 0 for the devices' own
 * @param remote the ranks outside the team
 * @param multicast has all ranks' memory reached by one access; null where there is none
 * @param level of lines on teams and the use of multicast
 */
public record WindowSetup(
    String name,
    int rank,
    List<PeerInfo> peers,
    UnreachedPairs unreached,
    Device device,
    Bootstrap bootstrap,
    long stride,
    RemotePeers remote,
    WindowMulticast multicast,
    Level level) {
  /** Of ranks that reach each other where they share a machine. */
  public WindowSetup(
      String name,
      int rank,
      List<PeerInfo> peers,
      Device device,
      Bootstrap bootstrap,
      long stride,
      RemotePeers remote,
      WindowMulticast multicast,
      Level level) {
    this(
        name,
        rank,
        peers,
        UnreachedPairs.NONE,
        device,
        bootstrap,
        stride,
        remote,
        multicast,
        level);
  }

  /** The ranks that reach each other's windows. */
  LsaTeam team() {
    return LsaTeam.of(peers, unreached, rank);
  }
}
