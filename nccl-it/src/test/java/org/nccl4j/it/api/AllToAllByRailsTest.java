package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.CallOptions;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Group;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;
import org.nccl4j.operation.Operation;

/** All-to-alls by rails, among ranks of this process that say they are on several hosts. */
@Timeout(600)
class AllToAllByRailsTest {
  private static final CommunicatorConfig PLAIN = CommunicatorConfig.defaults();
  static final CommunicatorConfig RAILS = PLAIN.with("NCCL_ALGO", "alltoall:rails");
  private static final String MEMORY = "all-to-all by rails";

  /** Bytes behind a buffer's end that nothing may write. */
  private static final int MARGIN = 64;

  private static final byte POISON = 0x77;

  private static byte[] data(int from, int to, int bytes) {
    return RandomBytes.of(31L * from + 1000L * to + bytes, bytes);
  }

  private static String chosen(Communicator comm, int bytes) {
    return comm.chosenAlgorithm(Operation.ALL_TO_ALL, bytes, DataType.INT8).algorithm().label();
  }

  /** A rank's buffers at odd addresses. */
  record Buffers(DeviceMemory allSend, DeviceMemory allRecv, int bytes, int n)
      implements AutoCloseable {
    static Buffers of(Communicator comm, int bytes) {
      int n = comm.nRanks();
      Buffers made =
          new Buffers(
              comm.device().allocate((long) n * bytes + MARGIN),
              comm.device().allocate((long) n * bytes + MARGIN),
              bytes,
              n);
      for (int to = 0; to < n; to++) {
        made.send().write((long) to * bytes, ByteBuffer.wrap(data(comm.rank(), to, bytes)));
      }
      made.allRecv.fill(POISON);
      return made;
    }

    DeviceMemory send() {
      return allSend.slice(1, (long) n * bytes);
    }

    DeviceMemory recv() {
      return allRecv.slice(3, (long) n * bytes);
    }

    void check(int rank) {
      ByteBuffer come = ByteBuffer.allocate((int) allRecv.size());
      allRecv.read(0, come);
      byte[] all = come.array();
      ByteBuffer expected = ByteBuffer.allocate(all.length);
      for (int i = 0; i < 3; i++) {
        expected.put(POISON);
      }
      for (int from = 0; from < n; from++) {
        expected.put(data(from, rank, bytes));
      }
      while (expected.hasRemaining()) {
        expected.put(POISON);
      }
      assertEquals(expected.flip(), ByteBuffer.wrap(all), "%d bytes".formatted(bytes));
      for (int to = 0; to < n; to++) {
        ByteBuffer sent = ByteBuffer.allocate(bytes);
        send().read((long) to * bytes, sent);
        assertEquals(ByteBuffer.wrap(data(rank, to, bytes)), sent.flip(), "the send buffer");
      }
    }

    @Override
    public void close() {
      allSend.close();
      allRecv.close();
    }
  }

  private static void exchange(Communicator comm, DeviceStream stream, int bytes) {
    try (Buffers buffers = Buffers.of(comm, bytes)) {
      comm.allToAll(buffers.send(), buffers.recv(), bytes, DataType.INT8, stream);
      stream.synchronize();
      buffers.check(comm.rank());
    }
  }

  /** Sizes of a step, of more, and of less than a word; each size again, by its kept plan. */
  @ParameterizedTest
  @ValueSource(
      strings = {
        "aabb",
        "aaabbb",
        "aabbcc",
        "aabbccdd",
        "abab",
        "abba",
        "abcabc",
        "aabbb",
        "aab",
        "abacba"
      })
  void everyByteComesToItsPlace(String hosts) throws Exception {
    try (Ranks ranks = Ranks.onHosts(hosts, RAILS)) {
      ranks.run(
          (comm, stream) -> {
            for (int bytes : new int[] {1, 777, 70_001, 3, 1_300_021, 777, 0}) {
              assertEquals("Rails", chosen(comm, bytes));
              exchange(comm, stream, bytes);
            }
          });
    }
  }

  /** There is none in these, also if it is asked for. */
  @ParameterizedTest
  @ValueSource(strings = {"abc", "aaaa"})
  void otherRanksExchangePairwise(String hosts) throws Exception {
    try (Ranks ranks = Ranks.onHosts(hosts, RAILS)) {
      ranks.run(
          (comm, stream) -> {
            for (int bytes : new int[] {1, 70_001}) {
              assertEquals("Pairwise", chosen(comm, bytes));
              exchange(comm, stream, bytes);
            }
            assertFalse(comm.explain(Operation.ALL_TO_ALL, 1, DataType.INT8).contains("Rails"));
          });
    }
  }

  /** Rails pay where they save several messages. */
  @ParameterizedTest
  @CsvSource({
    "aabb, '', 64, Pairwise",
    "aabb, alltoall:rails, 65536, Rails",
    "aaaabbbbccccdddd, '', 64, Rails",
    "abcdabcdabcdabcd, '', 64, Rails",
    "abcdabcdabcdabcd, '', 65536, Pairwise",
    "aaaabbbbccccdddd, '', 65536, Pairwise",
    "aaaabbbbccccdddd, alltoall:^rails, 64, Pairwise"
  })
  void theCostsChooseAmongWhatIsAllowed(
      String placement, String algorithms, int bytes, String expected) throws Exception {
    CommunicatorConfig config = algorithms.isEmpty() ? PLAIN : PLAIN.with("NCCL_ALGO", algorithms);
    int others = (int) placement.chars().distinct().count() - 1;
    int ranksAHost = placement.length() / (others + 1);
    String few = "hosts: %d of %d bytes".formatted(others, ranksAHost * bytes);
    String many = "hosts: %d of %d bytes".formatted(ranksAHost * others, bytes);
    try (Ranks ranks = Ranks.onHosts(placement, config)) {
      ranks.run(
          (comm, stream) -> {
            assertEquals(expected, chosen(comm, bytes));
            String text = comm.explain(Operation.ALL_TO_ALL, bytes, DataType.INT8);
            assertTrue(text.contains("chosen: " + expected), text);
            assertTrue(text.contains(few) && text.contains(many), text);
            exchange(comm, stream, bytes);
          });
    }
  }

  @Test
  void aCallMayAskForIt() throws Exception {
    CallOptions rails = CallOptions.defaults().withAlgorithm("Rails");
    try (Ranks ranks = Ranks.onHosts("aabb", PLAIN.with("NCCL_ALGO", "alltoall:^rails"))) {
      ranks.run(
          (comm, stream) -> {
            Communicator by = comm.withOptions(rails);
            assertEquals("Pairwise", chosen(comm, 1000));
            assertEquals("Rails", chosen(by, 1000));
            exchange(by, stream, 1000);
            exchange(comm, stream, 1000);
          });
    }
  }

  @Test
  void groupsMixItWithOtherOperations() throws Exception {
    int bytes = 3001;
    try (Ranks ranks = Ranks.onHosts("aabb", RAILS)) {
      ranks.run(
          (comm, stream) -> {
            int n = comm.nRanks();
            int next = (comm.rank() + 1) % n;
            int before = (comm.rank() - 1 + n) % n;
            try (Buffers one = Buffers.of(comm, bytes);
                Buffers two = Buffers.of(comm, 5);
                DeviceMemory sum = Ranks.floats(100, i -> comm.rank() + i);
                DeviceMemory passed = Ranks.floats(1, i -> comm.rank());
                DeviceMemory got = Ranks.floats(1, i -> -1)) {
              Group.run(
                  () -> {
                    comm.send(passed, 1, DataType.FLOAT32, next, stream);
                    comm.allToAll(one.send(), one.recv(), bytes, DataType.INT8, stream);
                    comm.allReduce(sum, sum, 100, DataType.FLOAT32, RedOp.SUM, stream);
                    comm.allToAll(two.send(), two.recv(), 5, DataType.INT8, stream);
                    comm.recv(got, 1, DataType.FLOAT32, before, stream);
                  });
              stream.synchronize();
              one.check(comm.rank());
              two.check(comm.rank());
              assertEquals(6 + 4 * 99, Ranks.floats(sum)[99]);
              assertEquals(before, Ranks.floats(got)[0]);
            }
          });
    }
  }

  /** The memory between the steps counts, and is given back. */
  @Test
  void itsMemoryEndsWithASuspension() throws Exception {
    try (Ranks ranks = Ranks.onHosts("aabb", RAILS)) {
      ranks.run(
          (comm, stream) -> {
            assertFalse(comm.memory().containsKey(MEMORY));
            exchange(comm, stream, 1000);
            assertEquals(64 << 10, comm.memory().get(MEMORY));
            comm.suspend();
            assertFalse(comm.memory().containsKey(MEMORY));
            comm.resume();
            exchange(comm, stream, 1000);
            assertEquals(64 << 10, comm.memory().get(MEMORY));
          });
    }
  }

  /** A split of whole hosts has rails too; one of every second rank has none. */
  @Test
  void splitsHaveItWhereTheirRanksAllow() throws Exception {
    try (Ranks ranks = Ranks.onHosts("aabbccdd", RAILS)) {
      ranks.run(
          (comm, stream) -> {
            try (Communicator half = comm.split(comm.rank() / 4, comm.rank()).orElseThrow()) {
              assertEquals("Rails", chosen(half, 100));
              exchange(half, stream, 100);
            }
            try (Communicator rail = comm.split(comm.rank() % 2, comm.rank()).orElseThrow()) {
              assertEquals("Pairwise", chosen(rail, 100));
              exchange(rail, stream, 100);
            }
          });
    }
  }

  @Test
  void warmCallsAllocateNothing() throws Exception {
    int operations = 200;
    try (Ranks ranks = Ranks.onHosts("aabb", RAILS)) {
      Allocation allocation = new Allocation(4, operations, List.of());
      ranks.run(
          (comm, stream) -> {
            try (Buffers buffers = Buffers.of(comm, 1000)) {
              DeviceMemory send = buffers.send();
              DeviceMemory recv = buffers.recv();
              allocation.measure(
                  () -> {
                    for (int call = 0; call < operations; call++) {
                      comm.allToAll(send, recv, 1000, DataType.INT8, stream);
                      stream.synchronize();
                    }
                  });
            }
          });
      allocation.assertNothing();
    }
  }
}
