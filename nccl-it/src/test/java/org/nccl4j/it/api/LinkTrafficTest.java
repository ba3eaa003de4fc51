package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.observe.flight.FlightReader;
import org.nccl4j.api.observe.flight.RankReport;
import org.nccl4j.api.observe.flight.RankReport.Traffic;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.RedOp;

/** The bytes that ranks send to each other, as the flight recorder has them. */
@Timeout(600)
class LinkTrafficTest {
  private static final int COUNT = 300_000;
  private static final long BYTES = 4L * COUNT;
  private static final int TIMES = 5;
  private static final long PATIENCE_NANOS = 300_000_000_000L;

  static Map<Integer, Long> sent(String communicator, int rank, String transport) {
    return FlightReader.ofProcess(ProcessHandle.current().pid()).stream()
        .filter(each -> each.name().startsWith(communicator) && each.rank() == rank)
        .map(RankReport::links)
        .flatMap(links -> links.traffic().stream())
        .filter(each -> each.transport().equals(transport) && each.bytes() > 0)
        .collect(Collectors.toMap(Traffic::peer, Traffic::bytes));
  }

  static void until(BooleanSupplier so) {
    long end = System.nanoTime() + PATIENCE_NANOS;
    while (!so.getAsBoolean() && System.nanoTime() < end) {
      Thread.yield();
    }
  }

  private static void send(Ranks ranks) throws Exception {
    ranks.run(
        (comm, stream) -> {
          try (DeviceMemory data = Ranks.floats(COUNT, i -> 1)) {
            for (int time = 0; time < TIMES; time++) {
              if (comm.rank() == 0) {
                comm.send(data, COUNT, DataType.FLOAT32, 1, stream);
              } else if (comm.rank() == 1) {
                comm.recv(data, COUNT, DataType.FLOAT32, 0, stream);
              }
            }
            stream.synchronize();
          }
        });
  }

  /** With each protocol, exposed and copied, in memory and over sockets. */
  @ParameterizedTest
  @CsvSource({
    "P2P, Simple, threads",
    "P2P, Simple, off",
    "P2P, LL, off",
    "P2P, LL128, off",
    "NET, Simple, off",
    "NET, LL, off"
  })
  void sendsCountTheirBytes(String transport, String protocol, String exposes) throws Exception {
    CommunicatorConfig config =
        CommunicatorConfig.defaults()
            .withTransports(List.of(transport))
            .withName("sends")
            .with("NCCL_SOCKET_IFNAME", "lo")
            .with("NCCL_PROTO", protocol)
            .with("NCCL4J_SINGLE_COPY", exposes);
    try (Ranks ranks = new Ranks(3, config)) {
      send(ranks);
      Map<Integer, Long> expected = Map.of(1, TIMES * BYTES);
      until(() -> sent("sends", 0, transport).equals(expected));
      assertEquals(expected, sent("sends", 0, transport));
      assertEquals(Map.of(), sent("sends", 1, transport));
    }
  }

  private static Map<Integer, String> ways(int rank) {
    return FlightReader.ofProcess(ProcessHandle.current().pid()).stream()
        .filter(each -> each.name().startsWith("cards") && each.rank() == rank)
        .filter(each -> each.device().equals(RankReport.HOST))
        .flatMap(each -> each.links().traffic().stream())
        .collect(Collectors.toMap(Traffic::peer, Traffic::way));
  }

  /** Also a rank that only receives. */
  @Test
  void bothEndsNameTheirCard() throws Exception {
    CommunicatorConfig config =
        CommunicatorConfig.defaults()
            .withTransports(List.of("NET"))
            .withName("cards")
            .with("NCCL_SOCKET_IFNAME", "lo");
    try (Ranks ranks = new Ranks(2, config)) {
      send(ranks);
      for (int rank = 0; rank < 2; rank++) {
        int of = rank;
        Map<Integer, String> expected = Map.of(1 - rank, "NET/Socket/lo");
        until(() -> ways(of).equals(expected));
        assertEquals(expected, ways(rank));
      }
    }
  }

  /** A ring of three sends each rank's data to the next, 2 * (n - 1) / n times. */
  @Test
  void aRingsRanksSendToTheNext() throws Exception {
    CommunicatorConfig config =
        CommunicatorConfig.defaults().withName("ring").with("NCCL_ALGO", "Ring");
    try (Ranks ranks = new Ranks(3, config)) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory data = Ranks.floats(COUNT, i -> 1)) {
              comm.allReduce(data, data, COUNT, DataType.FLOAT32, RedOp.SUM, stream);
              stream.synchronize();
            }
          });
      for (int rank = 0; rank < 3; rank++) {
        int of = rank;
        until(() -> sent("ring", of, "P2P").containsValue(BYTES * 4 / 3));
        assertEquals(List.of(BYTES * 4 / 3), List.copyOf(sent("ring", rank, "P2P").values()));
      }
    }
  }

  /** A split that shares connections counts what it sends itself, by its own ranks. */
  @Test
  void aSplitCountsItsOwn() throws Exception {
    try (Ranks parents = new Ranks(3, CommunicatorConfig.defaults().withName("parent"))) {
      parents.run(
          (comm, stream) -> {
            Communicator split = comm.split(comm.rank() == 1 ? 1 : 0, comm.rank()).orElseThrow();
            try (DeviceMemory data = Ranks.floats(COUNT, i -> 1)) {
              if (comm.rank() == 0) {
                split.send(data, COUNT, DataType.FLOAT32, 1, stream);
              } else if (comm.rank() == 2) {
                split.recv(data, COUNT, DataType.FLOAT32, 0, stream);
              }
              stream.synchronize();
              if (comm.rank() == 0) {
                until(() -> sent("parent", 0, "P2P").equals(Map.of(1, BYTES)));
                assertEquals(Map.of(1, BYTES), sent("parent", 0, "P2P"));
              }
              assertTrue(split.nRanks() > 0);
            } finally {
              split.close();
            }
          });
    }
  }

  /** The entry of a parent's link in this process's recorder, of all that share it. */
  private static Traffic shared(int rank, int peer) {
    return FlightReader.ofProcess(ProcessHandle.current().pid()).stream()
        .filter(each -> each.name().equals("shared") && each.rank() == rank)
        .flatMap(each -> each.links().traffic().stream())
        .filter(each -> each.peer() == peer)
        .findFirst()
        .orElse(new Traffic(peer, "NET", 0));
  }

  /** Over a network the connection itself counts what has arrived, whoever sends it. */
  @Test
  void aSharedConnectionCountsWhatArrives() throws Exception {
    CommunicatorConfig config = CommunicatorConfig.defaults().withName("shared");
    try (Ranks parents = Ranks.onHosts("AB", config)) {
      parents.run(
          (comm, stream) -> {
            Communicator split = comm.split(0, comm.rank()).orElseThrow();
            try (DeviceMemory data = Ranks.floats(COUNT, i -> 1)) {
              // More than the slots hold: some must have arrived before the last is sent.
              for (int time = 0; time < TIMES; time++) {
                if (comm.rank() == 0) {
                  split.send(data, COUNT, DataType.FLOAT32, 1, stream);
                } else {
                  split.recv(data, COUNT, DataType.FLOAT32, 0, stream);
                }
              }
              stream.synchronize();
              until(
                  () ->
                      shared(1, 0).received() == TIMES * BYTES
                          && shared(0, 1).recent().bytes() > 0);
              assertEquals(TIMES * BYTES, shared(1, 0).received());
              assertTrue(shared(0, 1).recent().bytes() > 0);
              assertEquals("NET/Socket/lo", shared(0, 1).way());
              assertEquals(0, shared(0, 1).bytes());
              assertTrue(split.nRanks() > 0);
            } finally {
              split.close();
            }
          });
    }
  }
}
