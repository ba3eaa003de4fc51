package org.nccl4j.device.cuda;

import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.nccl4j.device.cuda.plan.CommunicatorMemory;
import org.nccl4j.device.cuda.plan.ConnectionMemory;
import org.nccl4j.device.kernel.KernelCommunicatorSpec;
import org.nccl4j.device.kernel.P2pWork;
import org.nccl4j.device.kernel.PeerConnector;

/**
 * Connections that a communicator is created without, for sends and receives. They are made before
 * the first plan that uses them. Of the thread that prepares.
 */
final class LateConnections {
  private final KernelCommunicatorSpec spec;
  private final ConnectionMemory connections;
  private final CommunicatorMemory memory;

  /**
   * Makes none yet.
   *
   * @param spec of the communicator that the connections are made for, with lists that can change
   */
  LateConnections(
      KernelCommunicatorSpec spec, ConnectionMemory connections, CommunicatorMemory memory) {
    this.spec = spec;
    this.connections = connections;
    this.memory = memory;
  }

  /** True if ranks may be without a connection. */
  boolean mayLack() {
    return !spec.connector().equals(PeerConnector.NONE);
  }

  /**
   * Makes the connections that messages need.
   *
   * @throws org.nccl4j.device.NcclException if a rank cannot be connected; none is used then
   */
  void connect(List<P2pWork> works) {
    if (!mayLack()) {
      return;
    }
    Set<Integer> missing = new TreeSet<>();
    for (P2pWork work : works) {
      boolean goes = work.bytes() > 0 && work.peer() != spec.rank();
      if (goes && spec.sends().get(work.peer()) == null) {
        missing.add(work.peer());
      }
    }
    if (!missing.isEmpty()) {
      Map<Integer, PeerConnector.Pair> made = spec.connector().connect(missing);
      missing.forEach(peer -> use(peer, made.get(peer)));
    }
  }

  private void use(int peer, PeerConnector.Pair pair) {
    connections.markCarried(pair.send(), pair.recv(), peer);
    spec.recvs().set(peer, pair.recv());
    spec.sends().set(peer, pair.send());
    memory.writePeer(peer);
  }
}
