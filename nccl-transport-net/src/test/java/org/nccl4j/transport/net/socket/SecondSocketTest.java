package org.nccl4j.transport.net.socket;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.spi.NetContext;

/** Connections of GPUs have a second socket while the rank has few of them. */
class SecondSocketTest {
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
  void fewRanksHaveOneOfEachPair() {
    for (String late : new String[] {"0", "1"}) {
      try (SocketNet net = net(64, late)) {
        assertEquals(TWO_EACH_WAY, net.descriptorsOfPair());
      }
    }
  }

  /** All pairs are connected: one socket carries both directions of a pair. */
  @Test
  void manyRanksThatConnectAllPairsHaveNone() {
    try (SocketNet net = net(65, "0")) {
      assertEquals(1, net.descriptorsOfPair());
    }
  }

  /** Neighbours in rings and trees are few, whatever the number of ranks. */
  @Test
  void manyRanksThatConnectLateHaveOneOfTheFirstConnections() {
    try (SocketNet net = net(4096, "1")) {
      for (int made = 0; made < SocketNet.MOST_CONNECTIONS; made++) {
        assertEquals(TWO_EACH_WAY, net.descriptorsOfPair(), made + " connections");
        net.listen(0, made);
      }
      assertEquals(1, net.descriptorsOfPair());
    }
  }
}
