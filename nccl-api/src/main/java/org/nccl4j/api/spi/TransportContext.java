package org.nccl4j.api.spi;

import java.util.List;
import java.util.Optional;
import java.util.function.Consumer;
import org.nccl4j.device.Device;
import org.nccl4j.device.kernel.ConnectionLayout;

/** The communicator's facts for a transport. */
public interface TransportContext extends NetContext {
  /** All ranks, by rank, this one included. */
  List<PeerInfo> peers();

  /** This rank's device. */
  Device device();

  /** How large the two regions of each connection are and what lies where. */
  ConnectionLayout layout();

  /** The networks that can be used on this rank, best first. */
  List<NetProvider> nets();

  /**
   * Whether a network's device may access the memory of this rank's GPU itself, as far as the
   * machine's topology and the settings of distance go (NCCL_NET_GDR_LEVEL and the like). The
   * reason is a clause.
   *
   * @param reads whether it is to read that memory, to send; else to write it
   */
  default Support directAccess(NetDevice device, boolean reads) {
    return Support.no("the machine's topology is not known");
  }

  /**
   * Names of the networks' devices that are nearest to this rank's GPU, in the order in which the
   * rank should use them; empty where that is not known.
   */
  default List<String> nearestNets() {
    return List.of();
  }

  /**
   * By which device, and by way of which rank of this host, data for a rank of another host should
   * leave, as far as the machine's topology and the settings go (NCCL_PXN_DISABLE,
   * NCCL_P2P_PXN_LEVEL and the like); empty where this rank's own devices are as good.
   */
  default Optional<NetExit> exitTo(int peer) {
    return Optional.empty();
  }

  /**
   * Who is to be told of the steps of this rank's proxies; empty where nobody asks, and then
   * proxies do nothing for it. Always the same. It throws nothing, and proxies of several
   * connections may call it at once.
   */
  default Optional<Consumer<Profiler.ProxyStep>> proxySteps() {
    return Optional.empty();
  }
}
