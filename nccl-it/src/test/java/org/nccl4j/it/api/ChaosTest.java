package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.LongStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.api.UniqueId;
import org.nccl4j.api.spi.NetProvider;

/**
 * Two or three ranks as processes, over shared memory or sockets, that do random operations on
 * memory of each kind and are aborted, killed, stopped, cut off or reset at random; those that are
 * left go on. Nothing hangs, no result is wrong, nothing is left behind. The system properties
 * nccl4j.chaos.first and nccl4j.chaos.seeds say which seeds.
 */
@Timeout(3600)
class ChaosTest {
  private static final int RANKS = 3;

  @TempDir private Path services;

  private final List<LineRank> workers = new ArrayList<>();

  @AfterEach
  void end() {
    workers.forEach(LineRank::close);
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
    play(LongStream.range(first, first + seeds).toArray());
  }

  /** Two ranks with memory of each kind that they reach, and three with windows. */
  @Test
  void ranksThatAreKilledInAnOperationAreMissedByTheOthers() throws Exception {
    long[] seeds = {42, 92, 77};
    List<ChaosRank.Plan> plans = LongStream.of(seeds).mapToObj(ChaosRank.Plan::of).toList();
    plans.forEach(plan -> assertEquals(ChaosRank.Fault.KILL, plan.fault(), plan.toString()));
    assertEquals(List.of(2, 2, 3), plans.stream().map(ChaosRank.Plan::nRanks).toList());
    assertEquals(
        EnumSet.allOf(ChaosRank.Memory.class),
        plans.stream().map(ChaosRank.Plan::memory).collect(Collectors.toSet()));
    play(seeds);
  }

  private void play(long... seeds) throws Exception {
    for (int rank = 0; rank < RANKS; rank++) {
      workers.add(worker());
    }
    for (long seed : seeds) {
      round(seed);
      for (LineRank worker : workers) {
        worker.keepFootprint("seed " + seed);
      }
    }
    for (LineRank worker : workers) {
      worker.assertNothingIsLeft("the end");
    }
  }

  private LineRank worker() throws Exception {
    List<String> command = RankJvm.command(services);
    command.add(ChaosRank.class.getName());
    return new LineRank(command, ProcessBuilder.Redirect.DISCARD);
  }

  private void round(long seed) throws Exception {
    ChaosRank.Plan plan = ChaosRank.Plan.of(seed);
    List<LineRank> ranks = workers.subList(0, plan.nRanks());
    String where = "seed " + seed;
    UniqueId id = UniqueId.create();
    for (int rank = 0; rank < plan.nRanks(); rank++) {
      ranks.get(rank).tell(id + " " + seed + " " + rank);
    }
    LineRank victim = ranks.get(plan.victim());
    if (plan.fault() == ChaosRank.Fault.KILL) {
      assertEquals("KILL", victim.next(where));
      victim.close();
      assertEquals("ended", victim.next(where));
    } else if (plan.fault() == ChaosRank.Fault.STOP) {
      assertEquals("STOP", victim.next(where));
      victim.signal("STOP");
    }
    for (LineRank worker : ranks) {
      if (worker != victim) {
        assertEquals("ok", worker.next(where), where + " " + plan);
      }
    }
    switch (plan.fault()) {
      case KILL -> workers.set(plan.victim(), worker());
      case STOP -> {
        victim.signal("CONT");
        victim.tell("go on");
        assertEquals("ok", victim.next(where), where + " " + plan);
      }
      case ABORT, NONE, CUT, RESET -> assertEquals("ok", victim.next(where), where + " " + plan);
    }
  }
}
