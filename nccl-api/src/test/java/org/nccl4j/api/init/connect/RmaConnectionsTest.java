package org.nccl4j.api.init.connect;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.spi.Connector;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.Support;
import org.nccl4j.api.spi.Transport;
import org.nccl4j.api.spi.TransportContext;
import org.nccl4j.api.spi.TransportProvider;
import org.nccl4j.device.Device;

/** The transport that carries puts of GPUs to each rank. */
class RmaConnectionsTest {
  private static final List<PeerInfo> PEERS =
      IntStream.range(0, 4)
          .mapToObj(rank -> new PeerInfo(rank, "h", "ns", "p", 0, Device.Kind.CUDA, "gpu"))
          .toList();

  private record Provider(String name, boolean crossesHosts) implements TransportProvider {
    @Override
    public int priority() {
      return 0;
    }

    @Override
    public Transport open(TransportContext context) {
      throw new AssertionError("the test makes the transport");
    }
  }

  /** Reaches some ranks, and connects nothing. */
  private record Reaching(Set<Integer> ranks) implements Transport {
    @Override
    public Support canConnect(PeerInfo peer) {
      return ranks.contains(peer.rank()) ? Support.yes("near") : Support.no("far");
    }

    @Override
    public Connector sender(PeerInfo peer) {
      throw new AssertionError();
    }

    @Override
    public Connector receiver(PeerInfo peer) {
      throw new AssertionError();
    }

    @Override
    public void close() {}
  }

  private static TransportRoutes.NamedTransport transport(
      String name, boolean crossesHosts, Integer... ranks) {
    return new TransportRoutes.NamedTransport(
        new Provider(name, crossesHosts), new Reaching(Set.of(ranks)));
  }

  @Test
  void theBestOfSeveralThatReachARankIsUsed() {
    List<TransportRoutes.NamedTransport> ways =
        RmaConnections.byNetwork(
            PEERS,
            List.of(
                transport("P2P", false, 0, 1, 2, 3),
                transport("NET", true, 1, 2),
                transport("OTHER", true, 2, 3)));
    assertEquals(
        Arrays.asList(null, "NET", "NET", "OTHER"),
        ways.stream().map(way -> way == null ? null : way.provider().name()).toList());
  }
}
