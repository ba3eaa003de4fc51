package org.nccl4j.transport.net.socket;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.spi.NetContext;

/** Connections of GPUs have further sockets while the rank has few of them. */
class SecondSocketTest {
  private static final int FIVE_EACH_WAY = 10;
  private static final int TWO_EACH_WAY = 4;

  private record Gpu(int ranks, Map<String, String> settings) implements NetContext {
    @Override
    public int rank() {
      return 0;
    }

    @Override
    public boolean sharesThread() {
      return true;
    }

    @Override
    public byte[] secret() {
      return new byte[16];
    }

    @Override
    public Optional<String> setting(String name) {
      return Optional.ofNullable(settings.get(name));
    }
  }

  private static SocketNet net(int ranks, String late) {
    return new SocketNet(
        new Gpu(ranks, Map.of("NCCL_SOCKET_IFNAME", "lo", "NCCL_RUNTIME_CONNECT", late)));
  }

  @Test
  void fewRanksHaveFurtherSocketsForEachPair() {
    for (String late : new String[] {"0", "1"}) {
      try (SocketNet net = net(64, late)) {
        assertEquals(FIVE_EACH_WAY, net.descriptors(1));
      }
    }
  }

  /** All pairs are connected: one socket carries both directions of a pair. */
  @Test
  void manyRanksThatConnectAllPairsHaveNone() {
    try (SocketNet net = net(65, "0")) {
      assertEquals(1, net.descriptors(1));
    }
  }

  /** Neighbours in rings and trees are few, whatever the number of ranks. */
  @Test
  void manyRanksThatConnectLateHaveThemForTheFirstConnections() {
    try (SocketNet net = net(4096, "1")) {
      int later = SocketNet.MOST_CONNECTIONS - SocketNet.FIRST_CONNECTIONS;
      int promised = net.descriptors(SocketNet.MOST_CONNECTIONS);
      assertEquals(SocketNet.FIRST_CONNECTIONS * FIVE_EACH_WAY + later * TWO_EACH_WAY, promised);
      int receiving = 0;
      for (int made = 0; made < SocketNet.MOST_CONNECTIONS; made++) {
        int more = net.descriptors(1);
        int sockets = 1 + SocketHandle.fromBytes(net.listen(0, made).handle()).lanes();
        assertEquals(2 * sockets, more, made + " connections");
        receiving += sockets;
      }
      assertEquals(promised, 2 * receiving);
      assertEquals(1, net.descriptors(1));
    }
  }
}
