package org.nccl4j.it.net;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.UniqueId;
import org.nccl4j.api.Window;
import org.nccl4j.api.observe.flight.FlightReader;
import org.nccl4j.api.observe.flight.RankReport;
import org.nccl4j.api.observe.flight.RankReport.Failover;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;

/**
 * A program that is some of the ranks on hosts of two GPUs, which are beside a rail each, as a
 * topology file says: four, or as many as the property nccl4j.ranks says. It does what it is told
 * on its standard input, a line each, and says when it has done so.
 */
final class RailRanks {
  private static final int RANKS = Integer.getInteger("nccl4j.ranks", 4);
  private static final int PATIENCE_SECONDS = 300;
  private static final int WINDOW_BYTES = 100_000;

  private final List<Integer> ranks = new ArrayList<>();
  private final Communicator[] comms = new Communicator[RANKS];
  private final DeviceMemory[] memories = new DeviceMemory[RANKS];
  private final Window[] windows = new Window[RANKS];

  /** A rank's work on its thread. */
  private interface Body {
    void run(int rank) throws Exception;
  }

  /** Arguments: id, topology file, ranks of this process, settings as NAME=VALUE. */
  public static void main(String[] arguments) throws Exception {
    RailRanks self = new RailRanks();
    for (String rank : arguments[2].split(",")) {
      self.ranks.add(Integer.parseInt(rank));
    }
    CommunicatorConfig config =
        CommunicatorConfig.defaults()
            .withOperationTimeout(Duration.ofMinutes(5))
            .withInitTimeout(Duration.ofMinutes(5))
            .withTransports(List.of("SHM", "NET"))
            .with("NCCL_NET", RailNet.NAME)
            .with("NCCL_SOCKET_IFNAME", "lo")
            .with("NCCL_TOPO_FILE", arguments[1]);
    for (int i = 3; i < arguments.length; i++) {
      config = config.with(arguments[i].split("=")[0], arguments[i].split("=")[1]);
    }
    CommunicatorConfig all = config;
    self.perform(
        "made",
        rank ->
            self.comms[rank] =
                Communicator.initRank(
                    RANKS,
                    UniqueId.parse(arguments[0]),
                    rank,
                    Devices.host(),
                    all.with("NCCL_HOSTID", "host" + rank / 2)));
    self.obey();
  }

  private void obey() throws Exception {
    BufferedReader in =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      String[] words = line.split(" ");
      switch (words[0]) {
        case "collectives" -> perform("done", rank -> collectives(comms[rank]));
        case "suspend" ->
            perform(
                "done",
                rank -> {
                  comms[rank].suspend();
                  comms[rank].resume();
                });
        case "message" -> {
          int from = Integer.parseInt(words[1]);
          int to = Integer.parseInt(words[2]);
          int bytes = Integer.parseInt(words[3]);
          perform(
              "done",
              rank -> {
                if (rank == from || rank == to) {
                  message(comms[rank], rank == from, rank == from ? to : from, bytes);
                }
              });
        }
        case "stream" ->
            perform(
                "done",
                rank -> {
                  while (true) {
                    message(comms[rank], rank == 0, rank == 0 ? 3 : 0, 1 << 20);
                  }
                });
        case "close" -> {
          comms[Integer.parseInt(words[1])].close();
          System.out.println("done");
        }
        case "windows" ->
            perform(
                "done",
                rank -> {
                  memories[rank] = Devices.host().memAlloc(WINDOW_BYTES);
                  windows[rank] = comms[rank].registerWindow(memories[rank]);
                });
        case "put" -> {
          int from = Integer.parseInt(words[1]);
          int to = Integer.parseInt(words[2]);
          perform("done", rank -> put(rank, from, to));
        }
        case "replaced" -> System.out.println(replaced());
        case "cards" -> System.out.println(cards());
        case "threads" -> System.out.println(threads());
        default -> {
          RailNet.SENT.forEach((way, bytes) -> System.out.println(way + ": " + bytes.getAndSet(0)));
          System.out.println("done");
        }
      }
    }
  }

  /** The ranks of this process, with the ranks to which they report replaced paths. */
  private static String replaced() {
    Map<Integer, List<Integer>> replaced = new TreeMap<>();
    for (RankReport report : FlightReader.ofThisProcess(List.of())) {
      replaced.put(
          report.rank(), report.links().failovers().stream().map(Failover::peer).sorted().toList());
    }
    return replaced.toString();
  }

  /** The cards by which the ranks of this process report that they send, with the receivers. */
  private static String cards() {
    Map<Integer, List<String>> cards = new TreeMap<>();
    for (RankReport report : FlightReader.ofThisProcess(List.of())) {
      cards.put(
          report.rank(),
          report.links().traffic().stream()
              .filter(link -> link.bytes() > 0 && link.transport().equals("NET"))
              .map(link -> link.peer() + " by " + link.via())
              .sorted()
              .toList());
    }
    return cards.toString();
  }

  private void put(int rank, int from, int to) {
    try (DeviceStream stream = Devices.host().createStream()) {
      if (rank == from) {
        comms[rank].putSignal(
            memories[rank], WINDOW_BYTES, DataType.INT8, to, windows[rank], 0, stream);
      } else if (rank == to) {
        comms[rank].waitSignal(Map.of(from, 1), stream);
      }
      stream.synchronize();
    }
  }

  private static long threads() {
    return Thread.getAllStackTraces().keySet().stream()
        .filter(thread -> thread.getName().startsWith("nccl4j-relay-"))
        .count();
  }

  private void perform(String done, Body body) throws IOException {
    List<FutureTask<Void>> tasks = new ArrayList<>();
    for (int rank : ranks) {
      FutureTask<Void> task =
          new FutureTask<>(
              () -> {
                body.run(rank);
                return null;
              });
      tasks.add(task);
      Thread thread = new Thread(task, "rank " + rank);
      thread.setDaemon(true);
      thread.start();
    }
    String said = done;
    for (int i = 0; i < tasks.size(); i++) {
      try {
        tasks.get(i).get(PATIENCE_SECONDS, TimeUnit.SECONDS);
      } catch (Exception e) {
        Throwable cause = e.getCause() == null ? e : e.getCause();
        if (!(cause instanceof NcclException)) {
          cause.printStackTrace(System.out);
        }
        said = "rank %d: %s".formatted(ranks.get(i), cause.getMessage());
      }
    }
    System.out.println(said);
  }

  private static byte[] data(int from, int to, int bytes) {
    byte[] data = new byte[bytes];
    new Random(31L * from + to).nextBytes(data);
    return data;
  }

  private static void message(Communicator comm, boolean sends, int peer, int bytes) {
    try (DeviceMemory memory = Devices.host().allocate(bytes);
        DeviceStream stream = Devices.host().createStream()) {
      byte[] expected = data(sends ? comm.rank() : peer, sends ? peer : comm.rank(), bytes);
      if (sends) {
        memory.write(0, ByteBuffer.wrap(expected));
        comm.send(memory, bytes, DataType.INT8, peer, stream);
        stream.synchronize();
        return;
      }
      memory.fill((byte) 0x77);
      comm.recv(memory, bytes, DataType.INT8, peer, stream);
      stream.synchronize();
      ByteBuffer come = ByteBuffer.allocate(bytes);
      memory.read(0, come);
      assertEquals(ByteBuffer.wrap(expected), come.flip());
    }
  }

  /** Sizes below a slot and of several, and odd ones. */
  private static void collectives(Communicator comm) {
    int rank = comm.rank();
    for (int count : new int[] {1, 1000, 70_001, 300_007}) {
      try (DeviceMemory send = Devices.host().allocate(4L * RANKS * count);
          DeviceMemory recv = Devices.host().allocate(4L * RANKS * count);
          DeviceStream stream = Devices.host().createStream()) {
        for (int peer = 0; peer < RANKS; peer++) {
          send.write(4L * peer * count, ByteBuffer.wrap(data(rank, peer, 4 * count)));
        }
        recv.fill((byte) 0x77);
        comm.allToAll(send, recv, count, DataType.INT32, stream);
        stream.synchronize();
        ByteBuffer come = ByteBuffer.allocate(4 * count);
        for (int peer = 0; peer < RANKS; peer++) {
          recv.read(4L * peer * count, come.clear());
          assertEquals(ByteBuffer.wrap(data(peer, rank, 4 * count)), come.flip(), "of " + peer);
        }
        recv.fill((byte) 0x77);
        comm.allReduce(send, recv, count, DataType.INT32, RedOp.SUM, stream);
        stream.synchronize();
        ByteBuffer sum = ByteBuffer.allocate(4 * count);
        for (int i = 0; i < 4 * count; i += 4) {
          sum.putInt(0);
        }
        for (int peer = 0; peer < RANKS; peer++) {
          ByteBuffer part =
              ByteBuffer.wrap(data(peer, 0, 4 * count)).order(java.nio.ByteOrder.nativeOrder());
          for (int i = 0; i < 4 * count; i += 4) {
            sum.order(part.order()).putInt(i, sum.order(part.order()).getInt(i) + part.getInt(i));
          }
        }
        recv.read(0, come.clear());
        assertEquals(sum.flip(), come.flip(), "sum of " + count);
      }
    }
  }
}
