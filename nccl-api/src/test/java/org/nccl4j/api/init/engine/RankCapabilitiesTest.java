package org.nccl4j.api.init.engine;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.InputStream;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.logging.SimpleFormatter;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.api.init.connect.NamedProvider;
import org.nccl4j.api.init.connect.TransportRoutes;
import org.nccl4j.api.init.peers.HostLayout;
import org.nccl4j.api.plan.cost.CommunicatorProfile;
import org.nccl4j.api.plan.cost.TunedTable;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.spi.Tuner;
import org.nccl4j.api.spi.TunerContext;
import org.nccl4j.api.spi.TunerProvider;
import org.nccl4j.device.Device;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.kernel.KernelDevice.BlockRoom;

/** Facts of ranks that differ, of which all make the same. */
class RankCapabilitiesTest {
  private static final int CORES = 3;

  private static byte[] facts() {
    return facts(BlockRoom.UNLIMITED);
  }

  private static byte[] facts(BlockRoom room) {
    return facts(room, /* carried= */ false, Map.of());
  }

  private static byte[] facts(BlockRoom room, boolean carried, Map<String, String> settings) {
    return new RankCapabilities(
            Device.Kind.HOST,
            true,
            Set.of(),
            false,
            carried,
            64,
            48,
            true,
            room,
            "",
            TuningSettings.of(Settings.alone(settings), Device.Kind.HOST),
            "",
            "Socket",
            "host")
        .toBytes();
  }

  /** Which groups one kernel runs is decided alike. Measured times do not depend on it. */
  @Test
  void ranksLaunchGroupsTogetherOrNoneDoes() {
    TuningSettings all = TuningSettings.of(Settings.ofProcess(Map.of()), Device.Kind.CUDA);
    TuningSettings none =
        TuningSettings.of(Settings.ofProcess(Map.of("NCCL4J_GROUP_FUSE", "0")), Device.Kind.CUDA);
    InvalidUsageException e =
        assertThrows(InvalidUsageException.class, () -> all.check(0, none, 1));
    assertTrue(
        e.problem().contains("ranks 0 and 1 have different values of NCCL4J_GROUP_FUSE"),
        e.problem());
    assertEquals(all.conditions(), none.conditions());
  }

  /** A tuner that only {@link #ranksWithDifferentTunersAreRefused} names. */
  public static final class Named implements TunerProvider {
    /** For the service loader. */
    public Named() {}

    @Override
    public String name() {
      return "mine";
    }

    @Override
    public Tuner open(TunerContext context) {
      throw new UnsupportedOperationException();
    }
  }

  /** A loader that finds the tuner, outside this module. */
  private static final class Application extends URLClassLoader {
    Application(Path folder) throws IOException {
      super(new URL[] {folder.toUri().toURL()}, Named.class.getClassLoader());
    }

    @Override
    protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
      Class<?> loaded = findLoadedClass(name);
      if (loaded != null || !name.equals(Named.class.getName())) {
        return loaded == null ? super.loadClass(name, resolve) : loaded;
      }
      String file = name.substring(name.lastIndexOf('.') + 1) + ".class";
      try (InputStream in = Named.class.getResourceAsStream(file)) {
        byte[] bytes = in.readAllBytes();
        return defineClass(name, bytes, 0, bytes.length);
      } catch (IOException e) {
        throw new ClassNotFoundException(name, e);
      }
    }
  }

  /** A tuner changes choices. Ranks may find different ones with equal settings. */
  @Test
  void ranksWithDifferentTunersAreRefused(@TempDir Path folder) throws IOException {
    TuningSettings without = TuningSettings.of(Settings.alone(Map.of()), Device.Kind.HOST);
    Path services = Files.createDirectories(folder.resolve("META-INF/services"));
    Files.writeString(services.resolve(TunerProvider.class.getName()), Named.class.getName());
    Thread thread = Thread.currentThread();
    ClassLoader before = thread.getContextClassLoader();
    try (Application found = new Application(folder)) {
      thread.setContextClassLoader(found);
      TuningSettings with = TuningSettings.of(Settings.alone(Map.of()), Device.Kind.HOST);
      InvalidUsageException e =
          assertThrows(InvalidUsageException.class, () -> without.check(0, with, 1));
      assertTrue(
          e.problem()
              .contains(
                  "different values of NCCL_TUNER_PLUGIN or the tuner on the class path, 'none' and"
                      + " 'mine'"),
          e.problem());
      assertEquals(without.conditions(), with.conditions(), "measured times are the same");
      Settings none = Settings.alone(Map.of("NCCL_TUNER_PLUGIN", "none"));
      without.check(0, TuningSettings.of(none, Device.Kind.HOST), 1);
    } finally {
      thread.setContextClassLoader(before);
    }
  }

  /** The same on all ranks, so one says it. */
  @Test
  void aTableIsNotUsedOnSeveralHostsAndRankZeroSaysSo() {
    HostLayout two = new HostLayout(List.of(List.of(0, 1), List.of(2)));
    assertEquals(List.of(), warnings(0, hosts()));
    assertEquals(List.of(), warnings(1, two));
    List<String> said = warnings(0, two);
    assertEquals(1, said.size(), said.toString());
    assertTrue(
        said.get(0).startsWith("times (NCCL4J_COSTS_FILE) is not used: ")
            && said.get(0).contains("on 2 hosts; unset it"),
        said.toString());
  }

  /** Warnings of a rank with a table of its own device. */
  private static List<String> warnings(int self, HostLayout hosts) {
    TunedTable table =
        TunedTable.parse("times", List.of("device host", "3 AllReduce Ring Simple 1024:1.5"));
    List<byte[]> facts = List.of(facts(), facts(), facts());
    return warnings(
        () -> {
          CommunicatorProfile known =
              AllCapabilities.fromBytes(facts)
                  .common(self, hosts, CORES, /* late= */ false, Optional.of(table));
          assertEquals(hosts.count() == 1, known.usesTable(table));
        });
  }

  private static List<String> warnings(Runnable logging) {
    List<String> warnings = new ArrayList<>();
    Logger logger = Logger.getLogger("org.nccl4j.INIT");
    Handler collector = new Collector(warnings);
    logger.addHandler(collector);
    try {
      logging.run();
    } finally {
      logger.removeHandler(collector);
    }
    return warnings;
  }

  /** A side that never asks for signs of life is taken for silent by one that waits for them. */
  @Test
  void limitsOfNetworksThatDifferAreWarnedOf() {
    List<byte[]> facts = new ArrayList<>();
    for (int rank = 0; rank < 12; rank++) {
      Map<String, String> silence =
          Map.of("NCCL4J_NET_SILENCE_TIMEOUT", rank == 1 ? "0" : rank == 3 ? "250ms" : "8");
      facts.add(facts(BlockRoom.UNLIMITED, /* carried= */ true, silence));
    }
    assertEquals(
        List.of(
            "NCCL4J_NET_SILENCE_TIMEOUT is 8 s on ranks 0 2 4 5 6 7 8 9 and 2 more, 0 ms on rank 1,"
                + " 250 ms on rank 3: connections between these ranks may be replaced although they"
                + " work, or not be replaced if they break; give all ranks the same value, or none"),
        warnings(
            () ->
                AllCapabilities.fromBytes(facts)
                    .common(0, hosts(), CORES, /* late= */ false, Optional.empty())));
    assertEquals(
        List.of(),
        warnings(
            () ->
                AllCapabilities.fromBytes(facts)
                    .common(1, hosts(), CORES, /* late= */ false, Optional.empty())),
        "one rank says it");
    List<byte[]> local =
        List.of(
            facts(),
            facts(
                BlockRoom.UNLIMITED,
                /* carried= */ false,
                Map.of("NCCL4J_NET_FAILOVER_TIMEOUT", "0")));
    assertEquals(
        List.of(),
        warnings(
            () ->
                AllCapabilities.fromBytes(local)
                    .common(0, hosts(), CORES, /* late= */ false, Optional.empty())));
  }

  private static final class Collector extends Handler {
    private final List<String> warnings;

    Collector(List<String> warnings) {
      this.warnings = warnings;
    }

    @Override
    public void publish(LogRecord record) {
      if (record.getLevel().intValue() >= Level.WARNING.intValue()) {
        warnings.add(new SimpleFormatter().formatMessage(record));
      }
    }

    @Override
    public void flush() {}

    @Override
    public void close() {}
  }

  /** Blocks wait for the other ranks' blocks of their number. */
  @Test
  void blocksGoByTheRankWithTheLeastRoom() {
    List<byte[]> facts =
        List.of(
            facts(new BlockRoom(28, 56)),
            facts(new BlockRoom(40, 40)),
            facts(new BlockRoom(132, 264)));
    CommunicatorProfile common =
        AllCapabilities.fromBytes(facts)
            .common(0, hosts(), CORES, /* late= */ false, Optional.empty());
    assertEquals(new BlockRoom(28, 40), common.room());
    CommunicatorProfile split = common.of(List.of(List.of(0, 1)), Optional.empty(), 2);
    assertEquals(new BlockRoom(28, 40), split.room(), "of a split");
    assertEquals(2, split.nRanks());
    assertEquals(CORES, common.cores());
    assertEquals(2, split.cores());
  }

  /** Its name is of no matter. */
  @Test
  void aTransportOfAThirdPartyReachesMemoryWhereItSaysSo() {
    TransportRoutes.NamedTransport shares = route(new NamedProvider("theirs", true));
    TransportRoutes.NamedTransport copies = route(new NamedProvider("P2P", false));
    assertTrue(RankCapabilities.reaches(Arrays.asList(null, shares, shares)));
    assertFalse(RankCapabilities.reaches(Arrays.asList(shares, null, copies)));
  }

  private static TransportRoutes.NamedTransport route(NamedProvider provider) {
    return new TransportRoutes.NamedTransport(provider, null);
  }

  private static HostLayout hosts() {
    return new HostLayout(List.of(List.of(0, 1, 2)));
  }
}
