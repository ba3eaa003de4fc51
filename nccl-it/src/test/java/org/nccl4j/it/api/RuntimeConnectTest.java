package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledOnOs;
import org.junit.jupiter.api.condition.OS;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;

/** Ranks on hosts of their own, which sockets connect when an operation first needs it. */
@Timeout(600)
class RuntimeConnectTest {
  /** To the root, to the next rank and from the one before, at both ends, and a listening one. */
  private static final int BOOTSTRAP_SOCKETS = 5;

  /** Two in the ring, three in each tree. */
  private static final int MOST_NEIGHBOURS = 8;

  private static final CommunicatorConfig SOCKETS =
      CommunicatorConfig.defaults().with("NCCL_SHM_DISABLE", "1");

  static Ranks ranks(int n, CommunicatorConfig config) {
    StringBuilder hosts = new StringBuilder();
    IntStream.range(0, n).forEach(rank -> hosts.append((char) (0x100 + rank)));
    return Ranks.onHosts(hosts.toString(), config);
  }

  /** Sockets that this process has open. */
  static long sockets() throws IOException {
    long count = 0;
    try (Stream<Path> descriptors = Files.list(Path.of("/proc/self/fd"))) {
      for (Path descriptor : descriptors.toList()) {
        try {
          count += Files.readSymbolicLink(descriptor).toString().startsWith("socket:") ? 1 : 0;
        } catch (IOException e) {
          // It was closed meanwhile.
        }
      }
    }
    return count;
  }

  /** Each rank sends each other rank its number and that rank's, and checks what it gets. */
  private static void exchange(Communicator communicator, DeviceStream stream) {
    int n = communicator.nRanks();
    int rank = communicator.rank();
    try (DeviceMemory send = Ranks.floats(n, to -> 1000 * rank + to);
        DeviceMemory recv = Ranks.floats(n, from -> -1)) {
      communicator.allToAll(send, recv, 1, DataType.FLOAT32, stream);
      stream.synchronize();
      float[] expected = new float[n];
      for (int from = 0; from < n; from++) {
        expected[from] = 1000 * from + rank;
      }
      assertArrayEquals(expected, Ranks.floats(recv));
    }
  }

  private static void reduce(Communicator communicator, DeviceStream stream, int count) {
    int n = communicator.nRanks();
    try (DeviceMemory data = Ranks.floats(count, i -> communicator.rank() + i % 7)) {
      communicator.allReduce(data, data, count, DataType.FLOAT32, RedOp.SUM, stream);
      stream.synchronize();
      float[] sums = Ranks.floats(data);
      for (int i = 0; i < count; i++) {
        assertEquals(n * (n - 1) / 2 + n * (i % 7), sums[i]);
      }
    }
  }

  /** Waits until there are at most so many sockets: those of ended calls are closed later. */
  static void awaitAtMost(long most, String why) throws Exception {
    long end = System.nanoTime() + Ranks.PATIENCE_NANOS;
    while (sockets() > most && System.nanoTime() - end < 0) {
      Thread.sleep(1);
    }
    long sockets = sockets();
    assertTrue(sockets <= most, () -> "%s: %d of %d sockets".formatted(why, sockets, most));
  }

  @Test
  @EnabledOnOs(OS.LINUX)
  void creationConnectsNeighboursAlone() throws Exception {
    int n = 24;
    long before = sockets();
    try (Ranks ranks = ranks(n, SOCKETS)) {
      ranks.run((communicator, stream) -> reduce(communicator, stream, 1000));
      long most = (long) n * (BOOTSTRAP_SOCKETS + MOST_NEIGHBOURS);
      awaitAtMost(before + most, n + " ranks");
      ranks.run(RuntimeConnectTest::exchange);
      assertTrue(sockets() - before >= (long) n * (n - 1), "all ranks are connected now");
      ranks.run(RuntimeConnectTest::exchange);
    }
  }

  @Test
  void aSettingConnectsAllAtCreation() throws Exception {
    int n = 16;
    long before = sockets();
    try (Ranks ranks = ranks(n, SOCKETS.with("NCCL_RUNTIME_CONNECT", "0"))) {
      assertTrue(sockets() - before >= (long) n * (n - 1), "all ranks are connected");
      ranks.run(RuntimeConnectTest::exchange);
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"Ring", "Tree", "OneShot", "TwoShot"})
  void allAlgorithmsFindTheirConnections(String algorithm) throws Exception {
    try (Ranks ranks = ranks(9, SOCKETS.with("NCCL_ALGO", algorithm))) {
      ranks.run(
          (communicator, stream) -> {
            reduce(communicator, stream, 3);
            reduce(communicator, stream, 30_000);
          });
    }
  }

  @Test
  void ranksOfOneThreadNeedNoGroup() {
    int n = 11;
    try (Ranks ranks = ranks(n, SOCKETS)) {
      List<DeviceMemory> received = new ArrayList<>();
      for (int from = 0; from < n; from++) {
        int to = (from + n / 2) % n;
        DeviceMemory sent = Ranks.floats(1, i -> 7);
        received.add(Ranks.floats(1, i -> -1));
        Communicator sender = ranks.communicators.get(from);
        sender.send(sent, 1, DataType.FLOAT32, to, ranks.streams.get(from));
      }
      for (int to = 0; to < n; to++) {
        int from = (to - n / 2 + n) % n;
        Communicator receiver = ranks.communicators.get(to);
        receiver.recv(received.get(to), 1, DataType.FLOAT32, from, ranks.streams.get(to));
      }
      ranks.streams.forEach(DeviceStream::synchronize);
      received.forEach(memory -> assertArrayEquals(new float[] {7}, Ranks.floats(memory)));
    }
  }

  @Test
  void communicatorsThatShareConnectionsMakeThemForEachOther() throws Exception {
    int n = 7;
    try (Ranks ranks = ranks(n, SOCKETS)) {
      List<Communicator> reversed =
          Ranks.all(ranks.communicators, c -> c.split(0, -c.rank()).get());
      List<Communicator> odd =
          Ranks.all(ranks.communicators, c -> c.split(c.rank() % 2, c.rank()).get());
      ranks.run(
          (communicator, stream) -> {
            Communicator other = reversed.get(communicator.rank());
            reduce(communicator, stream, 5);
            exchange(odd.get(communicator.rank()), stream);
            exchange(other, stream);
            exchange(communicator, stream);
            exchange(odd.get(communicator.rank()), stream);
            reduce(other, stream, 50_000);
            exchange(communicator, stream);
          });
      Ranks.all(
          odd,
          c -> {
            c.close();
            return null;
          });
      Ranks.all(
          reversed,
          c -> {
            c.close();
            return null;
          });
    }
  }

  @Test
  void ranksThatMetInMemoryConnectToo() throws Exception {
    CommunicatorConfig config =
        SOCKETS.with("NCCL_P2P_DISABLE", "1").with("NCCL_SOCKET_IFNAME", "lo");
    try (Ranks ranks = new Ranks(9, config)) {
      ranks.run(RuntimeConnectTest::exchange);
    }
  }

  @Test
  void connectionsAreMadeAnewAfterASuspension() throws Exception {
    try (Ranks ranks = ranks(6, SOCKETS)) {
      ranks.run(RuntimeConnectTest::exchange);
      ranks.run((communicator, stream) -> communicator.suspend());
      ranks.run((communicator, stream) -> communicator.resume());
      ranks.run(RuntimeConnectTest::exchange);
    }
  }

  @Test
  void ranksWithDifferentSettingsAreTold() {
    int n = 8;
    CommunicatorConfig config =
        SOCKETS.with("NCCL_SOCKET_IFNAME", "lo").with("NCCL_P2P_DISABLE", "1");
    UniqueId id = UniqueId.create(config);
    List<CompletableFuture<Communicator>> joining = new ArrayList<>();
    for (int rank = 0; rank < n; rank++) {
      joining.add(
          Communicator.initRankAsync(
              n,
              id,
              rank,
              Devices.host(),
              config
                  .with("NCCL_HOSTID", "host " + rank)
                  .with("NCCL_RUNTIME_CONNECT", rank == 3 ? "0" : "1")));
    }
    for (CompletableFuture<Communicator> each : joining) {
      CompletionException e = assertThrows(CompletionException.class, each::join);
      assertTrue(e.getCause().getMessage().contains("NCCL_RUNTIME_CONNECT"), e::getMessage);
    }
  }

  @Test
  void aClosedRankIsNamedAtOnce() {
    try (Ranks ranks = ranks(16, SOCKETS);
        DeviceMemory data = Ranks.floats(1, i -> 7)) {
      ranks.communicators.get(10).close();
      Communicator sender = ranks.communicators.get(3); // no neighbour of rank 10
      DeviceStream stream = ranks.streams.get(3);
      NcclException e =
          assertThrows(
              NcclException.class, () -> sender.send(data, 1, DataType.FLOAT32, 10, stream));
      assertEquals(ErrorId.UNREACHABLE, e.id(), e::getMessage);
      assertTrue(e.getMessage().contains("cannot call rank 10"), e::getMessage);
    }
  }

  /** The output of the program where it may have 400 open files. */
  private static String withFewDescriptors(String... arguments) throws Exception {
    List<String> command =
        new ArrayList<>(
            List.of(
                "sh",
                "-c",
                "ulimit -n 400; exec \"$0\" \"$@\"",
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-XX:TieredStopAtLevel=1",
                "-XX:+UseSerialGC",
                "-XX:-UsePerfData",
                "-cp",
                ChaosRank.classPath(),
                FewDescriptors.class.getName()));
    command.addAll(List.of(arguments));
    Process process =
        new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
    String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertTrue(process.waitFor(300, TimeUnit.SECONDS));
    return said;
  }

  @Test
  @EnabledOnOs(OS.LINUX)
  void tooLowALimitOfOpenFilesIsNamedBeforeAnythingIsConnected() throws Exception {
    String said = withFewDescriptors();
    assertTrue(said.contains("needs 23 descriptors to connect with 23 ranks"), said);
    assertTrue(said.contains("a limit of 400"), said);
    assertTrue(said.contains("raise the limit of open files to "), said);
  }

  /** The other ranks have not come: the first is told at once. */
  @Test
  @EnabledOnOs(OS.LINUX)
  void aRootThatCannotHaveAllConnectionsSaysSo() throws Exception {
    String said = withFewDescriptors("root");
    assertTrue(said.contains("needs connections of 500 ranks"), said);
    assertTrue(said.contains("may have 400 open files"), said);
  }

  @Test
  void manyRanksOfOneHostReduceOverTheTreesOfTheHost() throws Exception {
    CommunicatorConfig config =
        SOCKETS
            .with("NCCL_P2P_DISABLE", "1")
            .with("NCCL_SOCKET_IFNAME", "lo")
            .with("NCCL_ALGO", "Tree");
    try (Ranks ranks = new Ranks(24, config)) {
      ranks.run((communicator, stream) -> reduce(communicator, stream, 100));
      ranks.run(
          (communicator, stream) -> {
            for (int root : Collections.nCopies(2, 11)) {
              try (DeviceMemory data = Ranks.floats(5, i -> communicator.rank())) {
                communicator.broadcast(data, data, 5, DataType.FLOAT32, root, stream);
                stream.synchronize();
                assertEquals(root, Ranks.floats(data)[4]);
              }
            }
          });
    }
  }
}
