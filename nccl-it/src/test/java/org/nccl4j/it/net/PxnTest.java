package org.nccl4j.it.net;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.UniqueId;
import org.nccl4j.api.spi.NetProvider;
import org.nccl4j.it.api.RankJvm;

/** Ranks that send by the card beside another rank's GPU, in one process and in several. */
@Timeout(600)
class PxnTest {
  private static final String TOGETHER = "0,1,2,3";

  private static final List<String> EIGHT = List.of("-Dnccl4j.ranks=8");

  /** Rank 1, which sends for rank 0, in a process of its own. */
  private static final String ONE = "1 0,2,3";

  @TempDir private Path folder;
  private Path machine;
  private final List<Worker> workers = new ArrayList<>();

  /** A process. */
  private final class Worker {
    private final String[] ranks;
    private final Process process;
    private final PrintWriter in;
    private final BlockingQueue<String> says = new LinkedBlockingQueue<>();

    Worker(String id, String ranks, List<String> options, List<String> settings) throws Exception {
      this.ranks = ranks.split(",");
      List<String> command = RankJvm.command(folder);
      command.addAll(1, options);
      command.addAll(List.of(RailRanks.class.getName(), id, machine.toString(), ranks));
      command.addAll(settings);
      ProcessBuilder builder = new ProcessBuilder(command);
      builder.environment().keySet().removeIf(name -> name.startsWith("NCCL"));
      process = builder.redirectError(ProcessBuilder.Redirect.INHERIT).start();
      in = new PrintWriter(process.getOutputStream(), true, StandardCharsets.UTF_8);
      Thread reader = new Thread(this::read, "pxn-reader");
      reader.setDaemon(true);
      reader.start();
      workers.add(this);
    }

    private void read() {
      try (BufferedReader out =
          new BufferedReader(
              new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8))) {
        out.lines().forEach(says::add);
      } catch (IOException | java.io.UncheckedIOException e) {
        // The stream of a killed process may be closed under its reader: the end all the same.
      }
      says.add("ended");
    }

    String next() throws InterruptedException {
      String said = says.poll(WiredRanks.PATIENCE_NANOS, TimeUnit.NANOSECONDS);
      assertTrue(said != null, "a process says nothing");
      return said;
    }

    String ask(String what) throws InterruptedException {
      in.println(what);
      return next();
    }
  }

  @BeforeEach
  void writeTheMachine() throws IOException {
    machine =
        RailMachine.write(
            folder, List.of("0000:11:00.0", "0000:21:00.0"), List.of("rail0", "rail1"));
    Path services = folder.resolve("META-INF/services").resolve(NetProvider.class.getName());
    Files.createDirectories(services.getParent());
    Files.writeString(services, RailNet.class.getName() + "\n");
  }

  @AfterEach
  void end() {
    workers.forEach(worker -> worker.process.destroyForcibly());
  }

  /** Processes with ranks each, once their communicators are made. */
  private void start(String ranks, String... settings) throws Exception {
    start(List.of(), ranks, settings);
  }

  private void start(List<String> options, String ranks, String... settings) throws Exception {
    String id = UniqueId.create().toString();
    for (String each : ranks.split(" ")) {
      new Worker(id, each, options, Arrays.asList(settings));
    }
    for (Worker worker : workers) {
      assertEquals("made", worker.next());
    }
  }

  /** The same is said to all, and all say the same. */
  private void all(String what, String answer) throws Exception {
    workers.forEach(worker -> worker.in.println(what));
    for (Worker worker : workers) {
      assertEquals(answer, worker.next());
    }
  }

  /** Bytes by rank and device, without those where nothing went. */
  private Map<String, Long> sent() throws Exception {
    Map<String, Long> sent = new TreeMap<>();
    for (Worker worker : workers) {
      String line = worker.ask("sent");
      while (!line.equals("done")) {
        long bytes = Long.parseLong(line.substring(line.indexOf(": ") + 2));
        if (bytes > 0) {
          sent.put(line.substring(0, line.indexOf(": ")), bytes);
        }
        line = worker.next();
      }
    }
    return sent;
  }

  /** All ranks, those of a process one after the other on one thread; twice does nothing. */
  private void close() throws Exception {
    for (Worker worker : workers) {
      for (String rank : worker.ranks) {
        worker.in.println("close " + rank);
      }
    }
    for (Worker worker : workers) {
      for (int closed = 0; closed < worker.ranks.length; closed++) {
        assertEquals("done", worker.next());
      }
    }
    long end = System.nanoTime() + WiredRanks.PATIENCE_NANOS;
    for (Worker worker : workers) {
      while (!worker.ask("threads").equals("0")) {
        assertTrue(System.nanoTime() - end < 0, "a relay goes on after all have closed");
      }
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {TOGETHER, "0,2 1,3"})
  void dataLeaveByTheRailOfTheReceiver(String processes) throws Exception {
    start(processes);
    sent();
    all("message 0 3 1500007", "done");
    assertEquals(Map.of("rank 1 by rail1", 1_500_007L), sent(), "rank 1 sends for rank 0");
    all("message 3 0 77", "done");
    assertEquals(Map.of("rank 2 by rail0", 77L), sent(), "rank 2 sends for rank 3");
    all("message 0 2 5", "done");
    assertEquals(Map.of("rank 0 by rail0", 5L), sent(), "it is its own rail");
    all("message 0 1 5", "done");
    assertEquals(Map.of(), sent(), "it is the same host");
    all("collectives", "done");
    Map<String, Long> sent = sent();
    for (String way : sent.keySet()) {
      int rank = Integer.parseInt(way.split(" ")[1]);
      assertEquals("rank %d by rail%d".formatted(rank, rank % 2), way);
    }
    assertEquals(4, sent.size(), sent.toString());
    close();
  }

  /** Some pairs of these ranks are connected at their first message. */
  @ParameterizedTest
  @ValueSource(strings = {"0,1,2,3,4,5,6,7", "0,2,4,6 1,3,5,7"})
  void dataOfLateConnectionsLeaveByTheRailOfTheReceiverToo(String processes) throws Exception {
    start(EIGHT, processes);
    sent();
    for (int peer = 2; peer < 8; peer++) {
      int relay = peer % 2;
      String way = "rank %d by rail%d".formatted(relay, relay);
      all("message %d %d 150007".formatted(1 - relay, peer), "done");
      assertEquals(Map.of(way, 150_007L), sent(), "to rank " + peer);
    }
    all("collectives", "done");
    for (String way : sent().keySet()) {
      int rank = Integer.parseInt(way.split(" ")[1]);
      assertEquals("rank %d by rail%d".formatted(rank, rank % 2), way);
    }
    close();
  }

  /** Rank 1, by whose card rank 0 would send, has closed before the two were connected. */
  @Test
  void whereTheOtherHasClosedALateConnectionSendsByTheOwnCard() throws Exception {
    start(EIGHT, "0,1,2,3,4,5,6,7");
    assertEquals("done", workers.get(0).ask("close 1"));
    sent();
    int own = 0;
    for (int peer = 3; peer < 8; peer += 2) {
      all("message 0 %d 150007".formatted(peer), "done");
      Map<String, Long> sent = sent();
      assertEquals(List.of(150_007L), List.copyOf(sent.values()), sent.toString());
      own += sent.keySet().iterator().next().startsWith("rank 0 by ") ? 1 : 0;
    }
    assertTrue(own > 0, "no pair is connected late");
    close();
  }

  /** Rank 1, by whose card rank 0 would send, has died before the two were connected. */
  @Test
  void whereTheOtherHasDiedItIsNamed() throws Exception {
    start(EIGHT, "1 0,2,3,4,5,6,7");
    workers.get(0).process.destroyForcibly().waitFor();
    String said = "done";
    for (int peer = 3; peer < 8 && said.equals("done"); peer += 2) {
      said = workers.get(1).ask("message 0 %d 150007".formatted(peer));
    }
    assertTrue(said.contains("rank 1"), said);
  }

  /** The rank that sends for another one reports it. */
  @Test
  void replacedPathsOfDataOfOthersAreReported() throws Exception {
    start(TOGETHER);
    all("message 0 3 1500007", "done");
    awaitReplaced("{0=[], 1=[3], 2=[], 3=[]}");
    close();
  }

  @Test
  void replacedPathsOfLateDataOfOthersAreReported() throws Exception {
    start(EIGHT, "0,1,2,3,4,5,6,7");
    for (int peer = 3; peer < 8; peer += 2) {
      all("message 0 %d 150007".formatted(peer), "done");
    }
    awaitReplaced("{0=[], 1=[3, 5, 7], 2=[], 3=[], 4=[], 5=[], 6=[], 7=[]}");
    close();
  }

  /** Each rank puts by its own card, and reports that. */
  @ParameterizedTest
  @ValueSource(strings = {"0", "1"})
  void replacedPathsOfPutsAreReported(String late) throws Exception {
    start(TOGETHER, "NCCL_RUNTIME_CONNECT=" + late);
    all("windows", "done");
    all("put 0 3", "done");
    awaitReplaced("{0=[3], 1=[], 2=[], 3=[]}");
    close();
  }

  /** Not the card by which the rank itself receives. */
  @Test
  void theCardBesideTheOtherIsReported() throws Exception {
    start(TOGETHER);
    all("message 0 3 1500007", "done");
    all("message 0 2 1500007", "done");
    await("cards", "{0=[2 by Rails/rail0, 3 by Rails/rail1], 1=[], 2=[], 3=[]}");
    close();
  }

  private void awaitReplaced(String expected) throws Exception {
    await("replaced", expected);
  }

  private void await(String what, String expected) throws Exception {
    long end = System.nanoTime() + WiredRanks.PATIENCE_NANOS;
    String said;
    do {
      said = workers.get(0).ask(what);
    } while (!said.equals(expected) && System.nanoTime() - end < 0);
    assertEquals(expected, said);
  }

  @Test
  void ranksThatWereSuspendedSendForOthersAgain() throws Exception {
    start(TOGETHER);
    all("suspend", "done");
    sent();
    all("message 0 3 1500007", "done");
    assertEquals(Map.of("rank 1 by rail1", 1_500_007L), sent());
    close();
  }

  @Test
  void whereItIsForbiddenNobodySendsForAnother() throws Exception {
    start(TOGETHER, "NCCL_PXN_DISABLE=1");
    sent();
    for (int peer : new int[] {2, 3}) {
      all("message 0 " + peer + " 1500007", "done");
      Map<String, Long> sent = sent();
      assertEquals(1, sent.size(), sent.toString());
      assertTrue(sent.keySet().iterator().next().startsWith("rank 0 by "), sent.toString());
    }
    all("collectives", "done");
    close();
  }

  @Test
  void railsAreNotCrossedWhereThatIsForbiddenEitherWay() throws Exception {
    start(TOGETHER, "NCCL_PXN_DISABLE=1", "NCCL_CROSS_NIC=0");
    sent();
    all("message 0 3 1500007", "done");
    assertEquals(Map.of("rank 0 by rail1", 1_500_007L), sent(), "the other card, without a relay");
    close();
  }

  /** Rank 1, by whose card rank 0 sends, has closed its communicator. */
  @ParameterizedTest
  @ValueSource(strings = {TOGETHER, ONE})
  void whoHasClosedStillSendsForOthers(String processes) throws Exception {
    start(processes);
    assertEquals("done", workers.get(0).ask("close 1"));
    if (workers.size() == 1) {
      assertEquals("1", workers.get(0).ask("threads"));
    }
    sent();
    all("message 0 3 3000001", "done");
    assertEquals(Map.of("rank 1 by rail1", 3_000_001L), sent());
    close();
  }

  @Test
  void whoDiesWhileItSendsForAnotherIsNamed() throws Exception {
    start(ONE);
    workers.get(1).in.println("stream");
    awaitBytes(workers.get(0));
    workers.get(0).process.destroyForcibly().waitFor();
    String said = workers.get(1).next();
    assertTrue(said.contains("rank 1"), said);
  }

  private static void awaitBytes(Worker worker) throws Exception {
    long end = System.nanoTime() + WiredRanks.PATIENCE_NANOS;
    long bytes = 0;
    while (bytes == 0) {
      assertTrue(System.nanoTime() - end < 0, "nothing is sent");
      String line = worker.ask("sent");
      while (!line.equals("done")) {
        bytes += Long.parseLong(line.substring(line.indexOf(": ") + 2));
        line = worker.next();
      }
    }
  }

  @Test
  void whoDiesForWhomAnotherSendsIsNamed() throws Exception {
    start("1,2 0 3");
    workers.get(1).in.println("stream");
    workers.get(2).in.println("stream");
    awaitBytes(workers.get(0));
    workers.get(1).process.destroyForcibly().waitFor();
    String said = workers.get(2).next();
    assertTrue(said.contains("rank 0"), said);
    assertEquals("done", workers.get(2).ask("close 3"));
    for (String close : List.of("close 1", "close 2")) {
      assertEquals("done", workers.get(0).ask(close));
    }
    long end = System.nanoTime() + WiredRanks.PATIENCE_NANOS;
    while (!workers.get(0).ask("threads").equals("0")) {
      assertTrue(System.nanoTime() - end < 0, "rank 1 waits for a dead rank");
    }
  }

  @Test
  void whoLacksTheCardSaysSoToAll() throws Exception {
    String id = UniqueId.create().toString();
    new Worker(id, "1", List.of("-Dnccl4j.rails=1"), List.of());
    new Worker(id, "0,2,3", List.of(), List.of());
    for (Worker worker : workers) {
      String said = worker.next();
      assertTrue(
          said.contains("rank 1 is to forward the data of rank 0 through network device rail1"),
          said);
      assertTrue(said.contains("NCCL_PXN_DISABLE=1"), said);
    }
  }
}
