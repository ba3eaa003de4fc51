package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.api.UniqueId;
import org.nccl4j.api.spi.NetProvider;
import org.nccl4j.it.cli.Main;

/**
 * Ranks as processes, over shared memory or sockets, that do random operations and are aborted,
 * killed, stopped, cut off or reset at random; those that are left go on. Nothing hangs, no result
 * is wrong, nothing is left behind. The system properties nccl4j.chaos.first and nccl4j.chaos.seeds
 * say which seeds.
 */
@Timeout(3600)
class ChaosTest {
  private static final int RANKS = 3;
  private static final int PATIENCE = 90;

  @TempDir private Path services;

  private final List<Worker> workers = new ArrayList<>();

  private static final class Worker {
    final Process process;
    final PrintWriter in;
    final BlockingQueue<String> says = new LinkedBlockingQueue<>();

    /** After its first round; null before. */
    Footprint before;

    Worker(Path services) throws Exception {
      List<String> command = RankJvm.command(services);
      command.add(ChaosRank.class.getName());
      process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.DISCARD).start();
      in = new PrintWriter(process.getOutputStream(), true, StandardCharsets.UTF_8);
      Thread reader = new Thread(this::read, "chaos-reader");
      reader.setDaemon(true);
      reader.start();
    }

    private void read() {
      try (BufferedReader out =
          new BufferedReader(
              new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8))) {
        for (String line = out.readLine(); line != null; line = out.readLine()) {
          says.add(line);
        }
      } catch (IOException e) {
        // The stream of a killed process may be closed under its reader: the end all the same.
      }
      says.add("ended");
    }

    void signal(String name) throws IOException, InterruptedException {
      new ProcessBuilder("kill", "-" + name, Long.toString(process.pid())).start().waitFor();
    }
  }

  @AfterEach
  void end() {
    workers.forEach(worker -> worker.process.destroyForcibly());
  }

  /** The ranks find the network that can be cut as they would find a third party's. */
  @BeforeEach
  void offerCuttableNet() throws IOException {
    Path file = services.resolve("META-INF/services").resolve(NetProvider.class.getName());
    Files.createDirectories(file.getParent());
    Files.writeString(file, CuttableNet.class.getName() + "\n");
  }

  @Test
  void whateverHappensTheOthersGoOn() throws Exception {
    long first = Long.getLong("nccl4j.chaos.first", 1);
    long seeds =
        Long.getLong("nccl4j.chaos.seeds", Boolean.getBoolean("nccl4j.thorough") ? 200 : 15);
    for (int rank = 0; rank < RANKS; rank++) {
      workers.add(new Worker(services));
    }
    for (long seed = first; seed < first + seeds; seed++) {
      round(seed);
      for (Worker worker : workers) {
        Footprint now = footprint(worker, seed);
        // A process that has taken the place of a killed one has yet to load the library.
        worker.before = worker.before == null && now.shared > 0 ? now : worker.before;
      }
    }
    for (Worker worker : workers) {
      Footprint after;
      long end = System.nanoTime() + 60_000_000_000L;
      do {
        after = footprint(worker, first + seeds);
      } while (!after.isWithin(worker.before) && System.nanoTime() - end < 0);
      assertTrue(after.isWithin(worker.before), worker.before + ", then " + after);
    }
  }

  /**
   * Resources of a process. Sockets and threads of its last round may still be ending.
   *
   * @param threads of the library's
   * @param shared mappings of shared memory; the flight recorder's is kept
   */
  private record Footprint(int descriptors, int threads, int shared) {
    boolean isWithin(Footprint before) {
      return before == null
          || descriptors <= before.descriptors
              && threads <= before.threads + 2
              && shared <= before.shared;
    }
  }

  private static Footprint footprint(Worker worker, long seed) throws InterruptedException {
    worker.in.println("footprint");
    String[] numbers = next(worker, seed).split(" ");
    return new Footprint(
        Integer.parseInt(numbers[0]), Integer.parseInt(numbers[1]), Integer.parseInt(numbers[2]));
  }

  private void round(long seed) throws Exception {
    ChaosRank.Plan plan = ChaosRank.Plan.of(seed, RANKS);
    UniqueId id = UniqueId.create();
    for (int rank = 0; rank < RANKS; rank++) {
      workers.get(rank).in.println(id + " " + seed + " " + RANKS + " " + rank);
    }
    Worker victim = workers.get(plan.victim());
    if (plan.fault() == ChaosRank.Fault.KILL) {
      assertEquals("KILL", next(victim, seed));
      victim.process.destroyForcibly();
      assertEquals("ended", next(victim, seed));
    } else if (plan.fault() == ChaosRank.Fault.STOP) {
      assertEquals("STOP", next(victim, seed));
      victim.signal("STOP");
    }
    for (Worker worker : workers) {
      if (worker != victim) {
        assertEquals("ok", next(worker, seed), "seed " + seed + " " + plan);
      }
    }
    switch (plan.fault()) {
      case KILL -> workers.set(plan.victim(), new Worker(services));
      case STOP -> {
        victim.signal("CONT");
        victim.in.println("go on");
        assertEquals("ok", next(victim, seed), "seed " + seed + " " + plan);
      }
      case ABORT, NONE, CUT, RESET ->
          assertEquals("ok", next(victim, seed), "seed " + seed + " " + plan);
    }
  }

  private static String next(Worker worker, long seed) throws InterruptedException {
    String said = worker.says.poll(PATIENCE, TimeUnit.SECONDS);
    if (said == null) {
      StringWriter out = new StringWriter();
      Main.run(new PrintWriter(out, true), new PrintWriter(out, true), "diagnose", "-t");
      throw new AssertionError("seed " + seed + " hangs:\n" + out);
    }
    return said;
  }
}
