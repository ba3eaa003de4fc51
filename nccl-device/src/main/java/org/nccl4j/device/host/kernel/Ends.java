package org.nccl4j.device.host.kernel;

import java.util.List;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.kernel.Connection;
import org.nccl4j.device.kernel.KernelCommunicatorSpec;

/** A communicator's connections, each with its step, by peer. */
final class Ends {
  private final SendEnd[] sends;
  private final RecvEnd[] recvs;

  Ends(KernelCommunicatorSpec spec) {
    sends = new SendEnd[spec.nRanks()];
    recvs = new RecvEnd[spec.nRanks()];
    for (int peer = 0; peer < spec.nRanks(); peer++) {
      Connection to = at(spec.sends(), peer);
      Connection from = at(spec.recvs(), peer);
      sends[peer] = to == null ? null : new SendEnd(peer, to, spec.layout());
      recvs[peer] = from == null ? null : new RecvEnd(peer, from, spec.layout());
    }
  }

  private static Connection at(List<Connection> connections, int peer) {
    return connections.get(peer);
  }

  SendEnd send(int peer) {
    return checked(sends[peer], peer);
  }

  RecvEnd recv(int peer) {
    return checked(recvs[peer], peer);
  }

  private static <T> T checked(T end, int peer) {
    if (end == null) {
      throw new InternalErrorException(
          "there is no connection with rank " + peer, "report this: it should have been made");
    }
    return end;
  }
}
