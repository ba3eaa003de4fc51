package org.nccl4j.api.init.connect;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.bootstrap.Bootstrap;
import org.nccl4j.api.bootstrap.LocalBootstrap;
import org.nccl4j.api.spi.Connector;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.Support;
import org.nccl4j.api.spi.Transport;
import org.nccl4j.device.Device;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RemoteException;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.device.connection.Connection;

/** A peer that stops after it has given its handles, so that connecting never ends by itself. */
@Timeout(600)
class ConnectionSetupTest {
  private static final List<PeerInfo> PEERS = List.of(peer(0), peer(1));

  private static final ConnectHandles.Offer NOTHING =
      new ConnectHandles.Offer(new byte[0], new byte[0], -1, "");

  private static PeerInfo peer(int rank) {
    return new PeerInfo(rank, "h", "ns", "p" + rank, 0, Device.Kind.HOST, "host", List.of());
  }

  /** Its connectors wait for the peer's memory for ever. */
  private record Waiting(CountDownLatch asked) implements Transport, Connector {
    @Override
    public Support canConnect(PeerInfo peer) {
      return Support.yes("");
    }

    @Override
    public Connector sender(PeerInfo peer) {
      return this;
    }

    @Override
    public Connector receiver(PeerInfo peer) {
      return this;
    }

    @Override
    public byte[] handle() {
      return new byte[0];
    }

    @Override
    public boolean connect(byte[] remoteHandle) {
      asked.countDown();
      return false;
    }

    @Override
    public Connection connection() {
      throw new AssertionError("it never connects");
    }

    @Override
    public String toString() {
      return "rank 1's memory has not come";
    }

    @Override
    public void close() {}
  }

  /** Connects rank 0, whose peer gives its handles and no more. */
  private static void connect(Bootstrap bootstrap, Waiting transport, Duration patience) {
    TransportRoutes.NamedTransport route =
        new TransportRoutes.NamedTransport(new NamedProvider("T", true), transport);
    ConnectionSetup.connect(
        Set.of(1),
        PEERS,
        Arrays.asList(null, route),
        List.of(route),
        bootstrap,
        System.nanoTime() + patience.toNanos());
  }

  @Test
  void theDeadlineOfTheInitialisationEndsIt() {
    List<Bootstrap> bootstraps = LocalBootstrap.create(2, Duration.ofSeconds(50));
    CompletableFuture<List<byte[]>> other = gives(bootstraps.get(1));
    TimeoutException e =
        assertThrows(
            TimeoutException.class,
            () ->
                connect(
                    bootstraps.get(0), new Waiting(new CountDownLatch(1)), Duration.ofMillis(100)));
    other.join();
    assertTrue(
        e.getMessage()
            .contains(
                "rank 0 is not connected with rank 1 by the deadline: rank 1's memory has not"),
        e.getMessage());
    assertTrue(e.remedy().contains("NCCL4J_INIT_TIMEOUT"), e.remedy());
  }

  @Test
  void aFailureThatIsToldEndsItAtOnce() {
    List<Bootstrap> bootstraps = LocalBootstrap.create(2, Duration.ofSeconds(50));
    Waiting transport = new Waiting(new CountDownLatch(1));
    CompletableFuture<Void> other =
        gives(bootstraps.get(1))
            .thenRunAsync(
                () -> {
                  try {
                    transport.asked.await();
                  } catch (InterruptedException e) {
                    throw new AssertionError(e);
                  }
                  bootstraps.get(1).tellFailure(new RemoteException("rank 1 has died", "see why"));
                });
    NcclException e =
        assertThrows(
            RemoteException.class,
            () -> connect(bootstraps.get(0), transport, Duration.ofSeconds(3000)));
    other.join();
    assertEquals("rank 1 has died", e.problem());
  }

  private static CompletableFuture<List<byte[]>> gives(Bootstrap bootstrap) {
    return CompletableFuture.supplyAsync(
        () -> bootstrap.allGather(ConnectHandles.toBytes(Map.of(0, NOTHING))));
  }
}
