package org.nccl4j.api.init.connect;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.bootstrap.Bootstrap;
import org.nccl4j.api.bootstrap.LocalBootstrap;
import org.nccl4j.api.spi.Connector;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.Support;
import org.nccl4j.api.spi.Transport;
import org.nccl4j.device.Device;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.TimeoutException;

/** The choice of a transport between two ranks, each with transports of its own. */
@Timeout(600)
class TransportRoutesTest {
  private static final List<PeerInfo> PEERS = List.of(peer(0), peer(1));

  private final List<Bootstrap> bootstraps = LocalBootstrap.create(2, Duration.ofSeconds(30));

  private static PeerInfo peer(int rank) {
    return new PeerInfo(rank, "h", "ns", "p", 0, Device.Kind.HOST, "host");
  }

  /** Says yes or no, once for each rank, and connects nothing. */
  private record Saying(Support support, Set<Integer> asked) implements Transport {
    @Override
    public Support canConnect(PeerInfo peer) {
      assertTrue(asked.add(peer.rank()), "asked again about rank " + peer.rank());
      return support;
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

  /** Routes of a rank with transports by name, best first; a name that begins with - says no. */
  private static TransportRoutes routes(int rank, String... names) {
    return new TransportRoutes(
        rank,
        PEERS,
        Stream.of(names)
            .map(
                name ->
                    name.startsWith("-")
                        ? named(name.substring(1), Support.no("it says no"))
                        : named(name, Support.yes("it says yes")))
            .toList(),
        "",
        "A, b",
        System.Logger.Level.DEBUG);
  }

  private static TransportRoutes.NamedTransport named(String name, Support support) {
    return new TransportRoutes.NamedTransport(
        new NamedProvider(name, true), new Saying(support, new HashSet<>()));
  }

  /** The name that both ranks choose. */
  private String choice(TransportRoutes low, TransportRoutes high) {
    CompletableFuture<List<TransportRoutes.NamedTransport>> other =
        CompletableFuture.supplyAsync(() -> high.choose(bootstraps.get(1)));
    List<TransportRoutes.NamedTransport> chosen = low.choose(bootstraps.get(0));
    assertNull(chosen.get(0));
    assertEquals(chosen.get(1).name(), other.join().get(0).name());
    assertEquals(
        Map.of(1, new TransportRoutes.Route(chosen.get(1).name(), "it says yes")),
        low.described(chosen));
    return chosen.get(1).name();
  }

  @Test
  void theLowerRanksOrderDecides() {
    assertEquals("A", choice(routes(0, "A", "B"), routes(1, "B", "A")));
    assertEquals("B", choice(routes(0, "B", "A"), routes(1, "A", "B")));
  }

  @Test
  void bothRanksMustBeAbleToUseIt() {
    assertEquals("B", choice(routes(0, "A", "B"), routes(1, "-A", "B")));
    assertEquals("B", choice(routes(0, "-A", "B"), routes(1, "A", "B")));
    assertEquals("B", choice(routes(0, "A", "B"), routes(1, "C", "B")));
  }

  @Test
  void anExcludedTransportIsChosenNoMore() {
    TransportRoutes low = routes(0, "A", "B");
    TransportRoutes high = routes(1, "A", "B");
    assertEquals("A", choice(low, high));
    low.exclude(1, low.transports().get(0), "the test pattern was damaged");
    high.exclude(0, high.transports().get(0), "the test pattern was damaged");
    assertEquals("B", choice(low, high));
  }

  /** Transports that answer at once are not to blame. */
  @Test
  void aDeadlineThatHasPassedIsNotTheTransports() {
    Bootstrap late = LocalBootstrap.create(2, Duration.ofNanos(1)).get(0);
    TimeoutException e = assertThrows(TimeoutException.class, () -> routes(0, "A").choose(late));
    assertTrue(e.problem().endsWith("taken longer than the init timeout"), e.problem());
    assertTrue(e.remedy().contains("NCCL4J_INIT_TIMEOUT"), e.remedy());
  }

  @Test
  void whereNoneReachesTheReasonsAreTold() {
    TransportRoutes high = routes(1, "B");
    CompletableFuture<InvalidUsageException> other =
        CompletableFuture.supplyAsync(
            () -> assertThrows(InvalidUsageException.class, () -> high.choose(bootstraps.get(1))));
    InvalidUsageException e =
        assertThrows(InvalidUsageException.class, () -> routes(0, "-A").choose(bootstraps.get(0)));
    assertEquals(ErrorId.NO_TRANSPORT, e.id());
    assertTrue(e.problem().contains("rank 0 can use [], rank 1 [B]"), e.problem());
    assertTrue(e.problem().contains("A: no, it says no"), e.problem());
    assertTrue(e.problem().contains("NCCL4J_TRANSPORTS=A, b allows only A"), e.problem());
    assertEquals(ErrorId.NO_TRANSPORT, other.join().id());
  }
}
