package org.nccl4j.it.net;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.Devices;
import org.nccl4j.api.spi.Connector;
import org.nccl4j.api.spi.NetProvider;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.ProxyHandler;
import org.nccl4j.api.spi.Transport;
import org.nccl4j.api.spi.TransportContext;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RemoteException;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.testkit.faults.FaultyNetProvider;
import org.nccl4j.testkit.faults.NetFaults;
import org.nccl4j.transport.net.NetTransportProvider;
import org.nccl4j.transport.net.socket.SocketNetProvider;

/**
 * The NET transport's proxies over networks that behave badly; the test takes the kernels' part.
 */
@Timeout(600)
class NetFaultTest {
  private static final ConnectionLayout LAYOUT = new ConnectionLayout(4096, 0, 64 << 10);
  private static final int STEPS = 200;

  private record Context(int rank, List<PeerInfo> peers, List<NetProvider> nets)
      implements TransportContext {
    @Override
    public Device device() {
      return Devices.host();
    }

    @Override
    public ConnectionLayout layout() {
      return LAYOUT;
    }

    @Override
    public byte[] secret() {
      return new byte[16];
    }

    @Override
    public Optional<String> setting(String name) {
      return name.equals("NCCL_SOCKET_IFNAME") ? Optional.of("lo") : Optional.empty();
    }
  }

  /** Two ranks and one connection between them. */
  private static final class Pair implements AutoCloseable {
    private final List<Transport> transports = new ArrayList<>();
    final Connector sender;
    final Connector receiver;

    Pair(NetFaults faults) {
      NetProvider net = new FaultyNetProvider(new SocketNetProvider(), faults);
      List<PeerInfo> peers = new ArrayList<>();
      for (int rank = 0; rank < 2; rank++) {
        peers.add(
            new PeerInfo(
                rank, "host" + rank, "", "", 0, Device.Kind.HOST, "host", List.of("Socket")));
      }
      for (int rank = 0; rank < 2; rank++) {
        transports.add(new NetTransportProvider().open(new Context(rank, peers, List.of(net))));
        assertTrue(transports.get(rank).canConnect(peers.get(1 - rank)).possible());
      }
      sender = transports.get(0).sender(peers.get(1));
      receiver = transports.get(1).receiver(peers.get(0));
      boolean connected = false;
      while (!connected) {
        boolean sends = sender.connect(receiver.handle());
        connected = receiver.connect(sender.handle()) && sends;
      }
    }

    /** Fills slots as a kernel does, and takes them; returns how many came right. */
    int exchange() {
      return exchange(STEPS);
    }

    /** The same until enough came, and for some turns longer: more than enough is counted too. */
    int exchange(int enough) {
      ProxyHandler out = sender.proxy().orElseThrow();
      ProxyHandler in = receiver.proxy().orElseThrow();
      DeviceMemory source = sender.connection().data();
      DeviceMemory target = receiver.connection().data();
      Random random = new Random(5);
      int[] sizes = random.ints(STEPS, 1, LAYOUT.simpleSlotBytes()).toArray();
      int filled = 0;
      int taken = 0;
      int longer = enough < STEPS ? 10_000 : 0;
      long end = System.nanoTime() + WiredRanks.PATIENCE_NANOS;
      while (taken < STEPS && System.nanoTime() - end < 0) {
        if (taken >= enough && longer-- == 0) {
          break;
        }
        if (filled < STEPS && word(sender.connection().credit()) > filled - 8) {
          source.write(LAYOUT.simple(filled), contents(filled, sizes[filled]));
          source.write(ConnectionLayout.size(filled), number(4).putInt(0, sizes[filled]));
          source.write(ConnectionLayout.TAIL, number(8).putLong(0, ++filled));
        }
        out.doWork();
        in.doWork();
        if (word(target) > taken) {
          ByteBuffer got = ByteBuffer.allocate(sizes[taken]);
          target.read(LAYOUT.simple(taken), got);
          assertEquals(contents(taken, sizes[taken]), got.flip(), "step " + taken);
          receiver.connection().credit().write(0, number(8).putLong(0, ++taken));
        }
      }
      return taken;
    }

    private static ByteBuffer contents(int step, int bytes) {
      byte[] contents = new byte[bytes];
      new Random(step).nextBytes(contents);
      return ByteBuffer.wrap(contents);
    }

    private static ByteBuffer number(int bytes) {
      return ByteBuffer.allocate(bytes).order(ByteOrder.nativeOrder());
    }

    private static long word(DeviceMemory region) {
      ByteBuffer word = number(8);
      region.read(0, word);
      return word.getLong(0);
    }

    @Override
    public void close() {
      transports.forEach(Transport::close);
    }
  }

  @ParameterizedTest
  @ValueSource(longs = {1, 2, 3, 4, 5})
  void aSlowNetworkLosesNothing(long seed) {
    try (Pair pair = new Pair(NetFaults.slow(seed))) {
      assertEquals(STEPS, pair.exchange());
    }
  }

  @Test
  void whatIsLostIsNotTakenForArrived() {
    try (Pair pair = new Pair(NetFaults.drop(50))) {
      assertEquals(50, pair.exchange(50));
    }
  }

  @Test
  void aBrokenConnectionNamesTheOtherRank() {
    try (Pair pair = new Pair(NetFaults.die(50))) {
      NcclException e = assertThrows(RemoteException.class, pair::exchange);
      // Either end may see it first.
      assertTrue(
          e.problem().contains("rank 0 has lost its connection with rank 1")
              || e.problem().contains("rank 1 has lost its connection with rank 0"),
          e.problem());
    }
  }

  @Test
  void aRefusedConnectionIsAnError() {
    SystemErrorException e =
        assertThrows(SystemErrorException.class, () -> new Pair(NetFaults.refuse()).close());
    assertTrue(e.problem().contains("refused"), e.problem());
  }
}
