package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Communicator.ShrinkMode;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Window;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.TimeoutException;

/** Puts and signals between ranks that do not reach each other's memory. */
@Timeout(600)
class RemotePutTest {
  private static final CommunicatorConfig DEFAULTS = CommunicatorConfig.defaults();

  private static DeviceMemory alloc(long bytes) {
    return Devices.host().memAlloc(bytes);
  }

  private static byte[] bytes(DeviceMemory memory, long offset, int count) {
    ByteBuffer read = ByteBuffer.allocate(count);
    memory.read(offset, read);
    return read.array();
  }

  private static void put(
      Communicator comm, DeviceMemory source, int peer, Window window, long at, DeviceStream s) {
    comm.putSignal(source, source.size(), DataType.INT8, peer, window, at, s);
  }

  /**
   * Each rank writes random bytes at random places of its part of every rank's window, the own
   * included, by several puts of which only the number is told; then all compare.
   *
   * @param hosts also those where some ranks of a host reach each other and some pairs do not
   */
  @ParameterizedTest
  @ValueSource(strings = {"ab", "aabb", "aab", "abab"})
  void everybodyPutsToEverybody(String hosts) throws Exception {
    int n = hosts.length();
    int part = 300_000;
    long seed = Long.getLong("nccl4j.seed", 1);
    System.out.println("seed " + seed);
    try (Ranks ranks = Ranks.onHosts(hosts, DEFAULTS)) {
      ranks.run(
          (comm, stream) -> {
            int rank = comm.rank();
            try (DeviceMemory memory = alloc((long) n * part);
                DeviceMemory source = alloc(part)) {
              Window window = comm.registerWindow(memory);
              for (int round = 0; round < 4; round++) {
                Map<Integer, Integer> signals = new HashMap<>();
                for (int peer = 0; peer < n; peer++) {
                  source.write(0, ByteBuffer.wrap(data(seed, round, rank, peer, part)));
                  int cut = cut(seed, round, rank, peer, part);
                  put(comm, source.slice(0, cut), peer, window, (long) rank * part, stream);
                  DeviceMemory rest = source.slice(cut, part - cut);
                  put(comm, rest, peer, window, (long) rank * part + cut, stream);
                  comm.signal(peer, stream);
                  stream.synchronize(); // the source is used again
                  signals.put(peer, 3);
                }
                comm.waitSignal(signals, stream);
                stream.synchronize();
                for (int from = 0; from < n; from++) {
                  byte[] expected = data(seed, round, from, rank, part);
                  assertArrayEquals(expected, bytes(memory, (long) from * part, part));
                }
                everybodyIsHere(comm, stream);
              }
              comm.deregisterWindowOnAllRanks(window);
            }
          });
    }
  }

  private static byte[] data(long seed, int round, int from, int to, int count) {
    return RandomBytes.of(seed + 1000L * round + 100L * from + to, count);
  }

  private static int cut(long seed, int round, int from, int to, int count) {
    return 1 + new Random(seed - 1000L * round - 100L * from - to).nextInt(count - 1);
  }

  private static void everybodyIsHere(Communicator comm, DeviceStream stream) {
    try (DeviceMemory one = Ranks.floats(1, i -> 1)) {
      comm.allReduce(one, one, 1, DataType.FLOAT32, RedOp.SUM, stream);
      stream.synchronize();
      assertEquals(comm.nRanks(), Ranks.floats(one)[0]);
    }
  }

  @Test
  void aRankThatCallsNothingIsWrittenToAndWhatWasPutIsThereAfterDeregistering() throws Exception {
    int count = 5_000_000;
    try (Ranks ranks = Ranks.onHosts("ab", DEFAULTS)) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory memory = alloc(count + 7);
                DeviceMemory mine = alloc(count)) {
              Window window = comm.registerWindow(memory);
              if (comm.rank() == 0) {
                mine.fill((byte) 5);
                put(comm, mine, 1, window, 7, stream);
                stream.synchronize();
              } else {
                while (bytes(memory, count + 6, 1)[0] != 5) { // no call of this library
                  Thread.onSpinWait();
                }
              }
              if (comm.rank() == 1) {
                mine.fill((byte) 6);
                put(comm, mine, 0, window, 0, stream);
                stream.synchronize();
              }
              comm.deregisterWindowOnAllRanks(window); // nobody has waited for a signal
              assertEquals(comm.rank() == 0 ? 6 : 5, bytes(memory, count - 1, 1)[0]);
              // Signals are the communicator's, not the window's: they are still there.
              comm.deregisterWindowOnAllRanks(comm.registerWindow(memory));
              comm.waitSignal(Map.of(1 - comm.rank(), 1), stream);
              stream.synchronize();
            }
          });
    }
  }

  @Test
  void aSignalThatDoesNotComeEndsByTheDeadlineAndTheOthersGoOn() throws Exception {
    CommunicatorConfig hasty = DEFAULTS.withOperationTimeout(Duration.ofMillis(500));
    CyclicBarrier registered = new CyclicBarrier(3);
    try (Ranks ranks = Ranks.onHosts("aab", hasty)) {
      ranks.run(
          (comm, stream) -> {
            assertEquals(
                ErrorId.HANDLE,
                assertThrows(NcclException.class, () -> comm.signal(2 - comm.rank(), stream)).id());
            try (DeviceMemory memory = alloc(64)) {
              comm.registerWindow(memory);
              registered.await(300, TimeUnit.SECONDS);
              if (comm.rank() == 0) {
                comm.waitSignal(Map.of(2, 1), stream);
                NcclException e = assertThrows(NcclException.class, stream::synchronize);
                assertTrue(e instanceof TimeoutException, e.toString());
                assertTrue(e.getMessage().contains("for a signal of rank 2"), e.getMessage());
              }
              while (comm.asyncError().isEmpty()) {
                Thread.onSpinWait();
              }
              try (Communicator left =
                  comm.shrink(Set.of(), ShrinkMode.ABORT, DEFAULTS.withName("left"))) {
                everybodyIsHere(left, stream);
              }
            }
          });
    }
  }

  @Test
  void whatSharesConnectionsRefusesAndWhatDoesNotPuts() throws Exception {
    try (Ranks ranks = Ranks.onHosts("ab", DEFAULTS)) {
      ranks.run(
          (comm, stream) -> {
            int other = 1 - comm.rank();
            try (DeviceMemory memory = alloc(64);
                Communicator sharing = comm.split(0, 0).orElseThrow();
                Communicator own = comm.split(0, 0, DEFAULTS.withSplitShare(false)).orElseThrow()) {
              Window refused = sharing.registerWindow(memory);
              NcclException e =
                  assertThrows(
                      NcclException.class, () -> put(sharing, memory, other, refused, 0, stream));
              assertTrue(e.getMessage().contains("withSplitShare(false)"), e.getMessage());
              sharing.deregisterWindowOnAllRanks(refused);
              memory.fill((byte) 0);
              Window window = own.registerWindow(memory);
              try (DeviceMemory one = alloc(1)) {
                one.fill((byte) (1 + comm.rank()));
                put(own, one, other, window, 63, stream);
                own.waitSignal(Map.of(other, 1), stream);
                stream.synchronize();
              }
              assertEquals(1 + other, bytes(memory, 63, 1)[0]);
            }
          });
    }
  }

  @Test
  void afterASuspensionPutsGoOn() throws Exception {
    try (Ranks ranks = Ranks.onHosts("ab", DEFAULTS)) {
      ranks.run(
          (comm, stream) -> {
            int other = 1 - comm.rank();
            for (int round = 1; round <= 2; round++) {
              try (DeviceMemory memory = alloc(8);
                  DeviceMemory one = alloc(8)) {
                one.fill((byte) round);
                Window window = comm.registerWindow(memory);
                put(comm, one, other, window, 0, stream);
                comm.waitSignal(Map.of(other, 1), stream);
                stream.synchronize();
                assertEquals(round, bytes(memory, 7, 1)[0]);
                comm.deregisterWindowOnAllRanks(window);
              }
              comm.suspend();
              comm.resume();
            }
          });
    }
  }
}
