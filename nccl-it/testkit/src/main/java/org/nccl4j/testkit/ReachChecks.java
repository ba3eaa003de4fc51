package org.nccl4j.testkit;

import java.util.List;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.Support;
import org.nccl4j.api.spi.Transport;
import org.nccl4j.api.spi.TransportProvider;

/** Checks a transport's name, the peers that it reaches, and its reasons. */
final class ReachChecks {
  private final CheckedTransport checked;

  ReachChecks(CheckedTransport checked) {
    this.checked = checked;
  }

  List<Check> all() {
    return List.of(
        new Check("a name of 1 to 32 letters, digits and hyphens, always the same", this::name),
        new Check("a peer in reach is reached, with the reason", this::reachable),
        new Check("a peer out of reach is refused, with the reason", this::unreachable));
  }

  private void name() {
    TransportProvider provider = checked.provider();
    Expect.that(provider.name().matches("[A-Za-z0-9-]{1,32}"), "name '%s'", provider.name());
    Expect.equal(provider.name(), checked.provider().name(), "name");
    Expect.equal(provider.priority(), checked.provider().priority(), "priority");
  }

  private void reachable() {
    try (Mesh mesh = new Mesh(checked, 2)) {
      Support support = mesh.transport(0).canConnect(mesh.peer(1));
      Expect.that(support.possible(), "cannot connect: %s", support.reason());
      Expect.that(!support.reason().isBlank(), "no reason");
    }
  }

  private void unreachable() {
    List<PeerInfo> peers = checked.unreachable();
    Expect.that(
        !peers.isEmpty() || checked.reachesAll(),
        "no peer out of reach is tried: override unreachable, or reachesAll");
    for (PeerInfo peer : peers) {
      try (Mesh mesh = new Mesh(checked, Math.max(2, peer.rank() + 1))) {
        Transport transport = mesh.transport(0);
        Support support = transport.canConnect(peer);
        Expect.that(!support.possible(), "claims to reach %s", peer);
        Expect.that(!support.reason().isBlank(), "no reason for %s", peer);
        Expect.failure("sender to " + peer, () -> transport.sender(peer));
        Expect.failure("receiver from " + peer, () -> transport.receiver(peer));
      }
    }
  }
}
