package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collections;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;

/** Communicators that are closed leave nothing: no descriptor, thread, mapping or file. */
@Timeout(600)
class LeakTest {
  private static final int ROUNDS = Boolean.getBoolean("nccl4j.thorough") ? 1000 : 200;

  /** Communicators with large buffers, and those before the footprint is taken. */
  private static final int USED = Boolean.getBoolean("nccl4j.thorough") ? 200 : 20;

  private static final int USED_BEFORE = 4;

  /** Of the JVM itself. */
  private static final int MORE_MAPPINGS = 64;

  private static final List<String> TRANSPORTS = List.of("P2P", "SHM", "NET");

  record Footprint(long descriptors, long threads, long mappings) {
    static Footprint now() throws IOException {
      long threads =
          Thread.getAllStackTraces().keySet().stream()
              .filter(thread -> thread.getName().startsWith("nccl4j-"))
              .count();
      try (Stream<Path> descriptors = Files.list(Path.of("/proc/self/fd"));
          Stream<String> mappings = Files.lines(Path.of("/proc/self/maps"))) {
        return new Footprint(descriptors.count(), threads, mappings.count());
      }
    }
  }

  @Test
  void hundredsOfCommunicators() throws Exception {
    try (DeviceMemory a = Ranks.floats(64, i -> 1);
        DeviceMemory b = Ranks.floats(64, i -> 1);
        DeviceStream first = Devices.host().createStream();
        DeviceStream second = Devices.host().createStream()) {
      Round round = new Round(a, b, first, second);
      round.run();
      for (String transport : TRANSPORTS) {
        round.overSockets(transport);
      }
      Footprint before = Footprint.now();
      for (int i = 0; i < ROUNDS; i++) {
        round.run();
      }
      for (int i = 0; i < 60; i++) {
        round.overSockets(TRANSPORTS.get(i % TRANSPORTS.size()));
      }
      assertNoMore(before);
    }
  }

  /** Exposed steps, halves that two ranks share ({@code Pair}), and windows. */
  @Test
  void communicatorsWhoseRanksUseEachOthersMemory() throws Exception {
    for (int i = 0; i < USED_BEFORE; i++) {
      useOthersMemory();
    }
    Footprint before = Footprint.now();
    for (int i = 0; i < USED; i++) {
      useOthersMemory();
    }
    assertNoMore(before);
  }

  private static void useOthersMemory() throws Exception {
    try (Ranks ranks = new Ranks(2)) {
      ranks.run(
          (comm, stream) -> {
            for (EveryCall.Kind kind : EveryCall.Kind.values()) {
              for (int count : new int[] {64, 8192, 300_000}) {
                try (EveryCall calls = new EveryCall(comm, stream, kind, count)) {
                  calls.run();
                }
              }
            }
          });
    }
  }

  /** Memory that is mapped, and memory that is read by process_vm_readv where that is allowed. */
  @Test
  void communicatorsOfProcessesThatMapEachOthersMemory() throws Exception {
    SharingRank.runBoth("leaks");
  }

  /** Waits for what ends a moment after close. */
  static void assertNoMore(Footprint before) throws IOException {
    Footprint after = awaitFewer(before);
    // Fewer is no leak: what an earlier test left to the collector may go in the meantime.
    assertTrue(after.descriptors <= before.descriptors, before + " " + after);
    assertTrue(after.threads <= before.threads + 1, before + " " + after);
    assertTrue(after.mappings <= before.mappings + MORE_MAPPINGS, before + " " + after);
  }

  /** Sockets and threads end a moment after close. */
  private static Footprint awaitFewer(Footprint before) throws IOException {
    long end = System.nanoTime() + Ranks.PATIENCE_NANOS;
    Footprint now = Footprint.now();
    while ((now.descriptors > before.descriptors
            || now.threads > before.threads + 1
            || now.mappings > before.mappings + MORE_MAPPINGS)
        && System.nanoTime() < end) {
      System.gc();
      now = Footprint.now();
    }
    return now;
  }

  /** Two ranks, and a split of them: two communicators. */
  private record Round(DeviceMemory a, DeviceMemory b, DeviceStream first, DeviceStream second) {
    void run() throws Exception {
      use(Communicator.initAll(Collections.nCopies(2, Devices.host())));
    }

    void overSockets(String transport) throws Exception {
      UniqueId id = UniqueId.create();
      CommunicatorConfig config = CommunicatorConfig.defaults().withTransports(List.of(transport));
      var other = Communicator.initRankAsync(2, id, 1, Devices.host(), config);
      Communicator mine = Communicator.initRank(2, id, 0, Devices.host(), config);
      use(List.of(mine, other.get()));
    }

    private void use(List<Communicator> comms) throws Exception {
      var childOfSecond = comms.get(1).splitAsync(0, 0, CommunicatorConfig.defaults());
      Communicator child = comms.get(0).split(0, 0).orElseThrow();
      Communicator otherChild = childOfSecond.get().orElseThrow();
      child.allReduce(a, a, 64, DataType.FLOAT32, RedOp.MAX, first);
      otherChild.allReduce(b, b, 64, DataType.FLOAT32, RedOp.MAX, second);
      second.isIdle();
      first.synchronize();
      second.synchronize();
      child.close();
      otherChild.close();
      comms.forEach(Communicator::close);
    }
  }
}
