package org.nccl4j.it.net;

import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import org.nccl4j.api.spi.Net;
import org.nccl4j.api.spi.NetContext;
import org.nccl4j.api.spi.NetProvider;
import org.nccl4j.api.spi.Support;
import org.nccl4j.testkit.NetContract;
import org.nccl4j.testkit.faults.FaultyNetProvider;
import org.nccl4j.testkit.faults.NetFaults;
import org.nccl4j.transport.net.socket.SocketNetProvider;

/** Sockets keep the contract: with one socket, with several, and when they are slow. */
class SocketContractTest {
  private static final boolean THOROUGH = Boolean.getBoolean("nccl4j.thorough");
  private static final Map<String, String> ONE = Map.of("NCCL_SOCKET_IFNAME", "lo");
  private static final Map<String, String> SEVERAL =
      Map.of("NCCL_SOCKET_IFNAME", "lo", "NCCL_SOCKET_NTHREADS", "2", "NCCL_NSOCKS_PERTHREAD", "2");

  private static Stream<DynamicTest> contract(NetProvider net, Map<String, String> settings) {
    NetContract contract =
        new NetContract() {
          @Override
          protected NetProvider provider() {
            return net;
          }

          @Override
          protected Map<String, String> settings() {
            return settings;
          }
        };
    return contract.checks().stream().map(check -> dynamicTest(check.name(), check::run));
  }

  @TestFactory
  Stream<DynamicTest> oneSocket() {
    return contract(new SocketNetProvider(), ONE);
  }

  @TestFactory
  Stream<DynamicTest> severalSockets() {
    return contract(new SocketNetProvider(), SEVERAL);
  }

  @TestFactory
  Stream<DynamicTest> threadsOfTheCommunicator() {
    return contract(new OneThreadForAll(), ONE);
  }

  @TestFactory
  Stream<DynamicTest> oneSocketWithChecksums() {
    return contract(
        new SocketNetProvider(),
        Map.of("NCCL_SOCKET_IFNAME", "lo", "NCCL4J_NET_CHECKSUM", "crc32c"));
  }

  @TestFactory
  Stream<DynamicTest> severalSocketsWithChecksums() {
    Map<String, String> settings = new HashMap<>(SEVERAL);
    settings.put("NCCL4J_NET_CHECKSUM", "crc32c");
    return contract(new SocketNetProvider(), settings);
  }

  /** Sockets of a rank whose connections' messages are moved by one thread, as a GPU's are. */
  private static final class OneThreadForAll implements NetProvider {
    private final NetProvider sockets = new SocketNetProvider();

    @Override
    public String name() {
      return sockets.name();
    }

    @Override
    public int priority() {
      return sockets.priority();
    }

    @Override
    public Support support(NetContext context) {
      return sockets.support(context);
    }

    @Override
    public Net open(NetContext context) {
      Net net = sockets.open(new GpuRank(context));
      assertTrue(net.descriptors(1) > 1, "a connection has one socket");
      return net;
    }
  }

  private record GpuRank(NetContext inner) implements NetContext {
    @Override
    public int rank() {
      return inner.rank();
    }

    @Override
    public boolean sharesThread() {
      return true;
    }

    @Override
    public byte[] secret() {
      return inner.secret();
    }

    @Override
    public Optional<String> setting(String name) {
      return inner.setting(name);
    }
  }

  @TestFactory
  Stream<DynamicTest> oneSocketWithTls() {
    return encrypted(Certificates.with(ONE));
  }

  @TestFactory
  Stream<DynamicTest> severalSocketsWithTls() {
    return severalEncrypted(Certificates.with(SEVERAL));
  }

  @TestFactory
  Stream<DynamicTest> severalSocketsWithTlsAndChecksums() {
    Map<String, String> settings = Certificates.with(SEVERAL);
    settings.put("NCCL4J_NET_CHECKSUM", "crc32c");
    return severalEncrypted(settings);
  }

  /**
   * 80 pairs of sockets with TLS take long to make. One socket with TLS and several without show
   * that closing leaves nothing of either.
   */
  private static Stream<DynamicTest> severalEncrypted(Map<String, String> settings) {
    return encrypted(settings)
        .filter(test -> THOROUGH || !test.getDisplayName().equals("closed, nothing is left"));
  }

  /** Java's TLS allocates for each record; NetworkTlsTest compares with that. */
  private static Stream<DynamicTest> encrypted(Map<String, String> settings) {
    return contract(new SocketNetProvider(), settings)
        .filter(test -> !test.getDisplayName().contains("warm"));
  }

  @TestFactory
  Stream<DynamicTest> slow() {
    NetProvider slow = new FaultyNetProvider(new SocketNetProvider(), NetFaults.slow(11));
    // The wrapper allocates, and begins messages only when it likes.
    return contract(slow, ONE).filter(test -> !test.getDisplayName().contains("warm"));
  }
}
