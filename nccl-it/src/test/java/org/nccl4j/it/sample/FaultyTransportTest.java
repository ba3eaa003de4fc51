package org.nccl4j.it.sample;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.spi.NetProvider;
import org.nccl4j.api.spi.TransportProvider;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.NcclException;

/** Transports and networks that break the rules are named, and what they did. */
@Timeout(600)
final class FaultyTransportTest {
  private static final String SOURCE =
      """
      package org.example.faulty;

      import org.nccl4j.api.spi.*;
      import org.nccl4j.device.*;
      import org.nccl4j.device.connection.*;

      public final class FaultyLinks {
        static boolean is(String defect) {
          return defect.equals(System.getProperty("faulty.defect"));
        }

        static <T> T fails(String defect, T answer) {
          if (is(defect + " throws")) {
            throw new IllegalStateException("no " + defect);
          }
          if (is(defect + " links")) {
            throw new NoClassDefFoundError("org/example/Missing");
          }
          return is(defect + " null") ? null : answer;
        }

        public static final class Provider implements TransportProvider {
          @Override
          public String name() {
            return fails("name", "faulty");
          }

          @Override
          public int priority() {
            return 1000;
          }

          @Override
          public Transport open(TransportContext context) {
            return fails("open", new Faulty(context));
          }
        }

        record Faulty(TransportContext context) implements Transport {
          @Override
          public Support canConnect(PeerInfo peer) {
            if (is("canConnect sleeps")) {
              try {
                Thread.sleep(400);
              } catch (InterruptedException e) {
                throw new IllegalStateException(e);
              }
            }
            return fails("canConnect", Support.yes("always"));
          }

          @Override
          public Connector sender(PeerInfo peer) {
            return fails("sender", new End(context));
          }

          @Override
          public Connector receiver(PeerInfo peer) {
            return fails("receiver", new End(context));
          }

          @Override
          public void close() {}
        }

        record End(TransportContext context) implements Connector {
          @Override
          public byte[] handle() {
            return fails("handle", new byte[is("handle long") ? 5000 : 8]);
          }

          @Override
          public boolean connect(byte[] remoteHandle) {
            fails("connect", "");
            return true;
          }

          @Override
          public Connection connection() {
            DeviceMemory data =
                context.device().allocate(is("connection small") ? 64 : context.layout().dataBytes());
            DeviceMemory credit = context.device().allocate(ConnectionLayout.CREDIT_BYTES);
            return fails("connection", new Connection(is("memory null") ? null : data, credit));
          }
        }

        public static final class Network implements NetProvider {
          @Override
          public String name() {
            return "faulty-net";
          }

          @Override
          public int priority() {
            return 0;
          }

          @Override
          public Support support(NetContext context) {
            return fails("support", Support.no("there is none"));
          }

          @Override
          public Net open(NetContext context) {
            throw new IllegalStateException("not reached");
          }
        }
      }
      """;

  private static NcclException failure(String defect) {
    return failure(defect, Duration.ofSeconds(60));
  }

  private static NcclException failure(String defect, Duration deadline) {
    System.setProperty("faulty.defect", defect);
    try {
      CommunicatorConfig config = CommunicatorConfig.defaults().withInitTimeout(deadline);
      return assertThrows(
          NcclException.class,
          () -> Communicator.initAll(List.of(Devices.host(), Devices.host()), config),
          defect);
    } finally {
      System.clearProperty("faulty.defect");
    }
  }

  @Test
  void whatBreaksTheRulesIsNamed(@TempDir Path folder) throws Exception {
    Map<Class<?>, String> services =
        Map.of(
            TransportProvider.class, "org.example.faulty.FaultyLinks$Provider",
            NetProvider.class, "org.example.faulty.FaultyLinks$Network");
    Map<String, String> defects =
        Map.ofEntries(
            Map.entry("name throws", "fails with java.lang.IllegalStateException: no name in name"),
            Map.entry("name null", "returns null from name"),
            Map.entry("open throws", "fails with java.lang.IllegalStateException: no open in open"),
            Map.entry("open links", "fails with java.lang.NoClassDefFoundError"),
            Map.entry("open null", "returns null from open"),
            Map.entry(
                "canConnect throws",
                "(org.example.faulty.FaultyLinks$Provider) fails with"
                    + " java.lang.IllegalStateException"),
            Map.entry(
                "canConnect null",
                "transport faulty (org.example.faulty.FaultyLinks$Provider) returns null from"
                    + " canConnect"),
            Map.entry("sender null", "returns null from sender"),
            Map.entry("receiver links", "fails with java.lang.NoClassDefFoundError"),
            Map.entry("handle null", "returns null from handle"),
            Map.entry("handle long", "returns 5000 bytes, more than 4096, from handle"),
            Map.entry("connect throws", "no connect in connect"),
            Map.entry("connection null", "returns null from connection"),
            Map.entry("connection small", "gives the data side 64 bytes instead of "),
            Map.entry("memory null", "gives the data side no memory instead of "));
    CompiledPlugins plugins = CompiledPlugins.of(folder, SOURCE, services);
    try {
      for (Map.Entry<String, String> defect : defects.entrySet()) {
        NcclException error = failure(defect.getKey());
        assertEquals(ErrorId.PLUGIN, error.id(), defect.getKey() + ": " + error);
        assertTrue(error.problem().contains(defect.getValue()), error.problem());
        assertTrue(
            error.problem().contains("org.example.faulty.FaultyLinks$Provider"), error.problem());
        assertTrue(error.remedy().contains("NCCL4J_TRANSPORTS"), error.remedy());
      }
      NcclException net = failure("support throws");
      assertEquals(ErrorId.PLUGIN, net.id(), net.toString());
      assertTrue(net.problem().contains("network faulty-net (org.example"), net.problem());
      assertTrue(net.remedy().contains("NCCL_NET"), net.remedy());
      assertEquals(
          NcclException.Code.TIMEOUT, failure("canConnect sleeps", Duration.ofMillis(300)).code());
    } finally {
      plugins.close();
    }
  }
}
