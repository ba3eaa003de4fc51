package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.api.Window;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.cuda.CudaDevice;

/** Splits that use the connections of what they were split from, on GPUs. Needs GPUs. */
@Tag("gpu")
@Tag("two-gpus")
class SharedSplitGpuTest {
  private static final long SEED = Long.getLong("nccl4j.seed", 1);
  private static final int MOST_COUNT = 40_000;
  private static final int COUNT = 1 << 20;

  private static CommunicatorConfig config(int seconds) {
    return CommunicatorConfig.defaults()
        .withOperationTimeout(Duration.ofSeconds(seconds))
        .withMaxCtas(16)
        .with("NCCL_MULTI_RANK_GPU_ENABLE", "1");
  }

  /** Ranks on all GPUs by turns. */
  private static List<Communicator> ranks(int n, int seconds) {
    List<CudaDevice> gpus = Devices.cuda().list();
    List<Device> devices = new ArrayList<>();
    for (int rank = 0; rank < n; rank++) {
      devices.add(gpus.get(rank % gpus.size()));
    }
    return Communicator.initAll(devices, config(seconds));
  }

  /** A thread a rank, of which each has a GPU to itself. */
  @Test
  void operationsTakeTurnsOnTheConnections() {
    System.out.println("seed " + SEED);
    int gpus = Devices.cuda().list().size();
    List<Communicator> ranks =
        ranks(Integer.getInteger("ranks", gpus >= 4 ? 4 : 2), Integer.getInteger("seconds", 20));
    Ranks.all(
        ranks,
        rank -> {
          try (SplitProgram program = new SplitProgram(rank, MOST_COUNT, SEED)) {
            for (int round = 0; round < 12; round++) {
              program.batch();
              program.graphs();
            }
          }
          return 0;
        });
    ranks.forEach(Communicator::close);
  }

  /** Also ranks that have a GPU in common. */
  @Test
  void oneThreadDrivesAllRanks() {
    System.out.println("seed " + SEED);
    List<Communicator> ranks = ranks(4, 20);
    List<SplitProgram> programs =
        Ranks.all(ranks, rank -> new SplitProgram(rank, MOST_COUNT, SEED));
    for (int round = 0; round < 40; round++) {
      List<List<Runnable>> steps = programs.stream().map(SplitProgram::grouped).toList();
      Group.run(() -> steps.forEach(step -> step.get(0).run()));
      steps.forEach(step -> step.get(1).run());
    }
    programs.forEach(SplitProgram::close);
    ranks.forEach(Communicator::close);
  }

  /** Each rank a host of its own. */
  @Test
  void operationsTakeTurnsOverANetwork() throws Exception {
    System.out.println("seed " + SEED);
    List<CudaDevice> gpus = Devices.cuda().list();
    try (Ranks ranks =
        Ranks.onHosts("ab", gpus, config(20).with("NCCL_NCHANNELS_PER_NET_PEER", "4"))) {
      ranks.run(
          (rank, stream) -> {
            try (SplitProgram program = SplitProgram.asChosen(rank, MOST_COUNT, SEED)) {
              assertEquals(0, program.heldBySplits());
              for (int round = 0; round < 12; round++) {
                program.batch();
                program.graphs();
              }
            }
          });
    }
  }

  @Test
  void byDefaultASplitTakesNoMemoryOfTheGpu() {
    List<Communicator> ranks = ranks(Devices.cuda().list().size(), 20);
    CudaDevice gpu = Devices.cuda().device(0);
    Map<String, Long> held = ranks.get(0).memory();
    long before = gpu.memoryInfo()[0];
    List<List<Communicator>> splits = new ArrayList<>();
    for (int i = 0; i < 10; i++) {
      splits.add(Ranks.all(ranks, rank -> rank.split(0, -rank.rank()).orElseThrow()));
      splits.add(Ranks.all(ranks, rank -> rank.split(rank.rank(), 0).orElseThrow()));
    }
    assertEquals(before, gpu.memoryInfo()[0]);
    assertEquals(held, ranks.get(0).memory());
    splits.forEach(
        split -> split.forEach(each -> assertEquals(Map.of("kernels", 0L), each.memory())));
    splits.forEach(split -> split.forEach(Communicator::close));
    ranks.forEach(Communicator::close);
  }

  /** Operations of a split straight between its windows, by turns with its parent's. */
  @Test
  void windowsOfASplit() {
    int gpus = Devices.cuda().list().size();
    List<Communicator> ranks = ranks(gpus, 20);
    float sum = gpus * (gpus + 1) / 2;
    Ranks.all(
        ranks,
        rank -> {
          try (Communicator split = rank.split(0, -rank.rank()).orElseThrow();
              DeviceMemory window = rank.device().memAlloc(4 * COUNT);
              DeviceMemory target = rank.device().memAlloc(4 * COUNT);
              DeviceMemory other = rank.device().allocate(4 * COUNT);
              DeviceStream stream = rank.device().createStream();
              DeviceStream second = rank.device().createStream()) {
            Window from = split.registerWindow(window);
            Window to = split.registerWindow(target);
            for (int count = 2; count <= COUNT; count *= 4) {
              fill(window, count, rank.rank() + 1);
              fill(other, count, rank.rank() + 1);
              target.fill((byte) 0x5a);
              for (int time = 0; time < 5; time++) {
                split.allReduce(window, target, count, DataType.FLOAT32, RedOp.SUM, stream);
                rank.broadcast(other, other, count, DataType.FLOAT32, 1, second);
              }
              stream.synchronize();
              second.synchronize();
              check(target, count, sum);
              check(other, count, 2);
            }
            split.deregisterWindowOnAllRanks(from);
            split.deregisterWindowOnAllRanks(to);
          }
          return 0;
        });
    ranks.forEach(Communicator::close);
  }

  private static void fill(DeviceMemory memory, int count, float value) {
    ByteBuffer data = ByteBuffer.allocateDirect(4 * count).order(ByteOrder.nativeOrder());
    while (data.hasRemaining()) {
      data.putFloat(value);
    }
    memory.write(0, data.flip());
  }

  private static void check(DeviceMemory memory, int count, float value) {
    ByteBuffer data = ByteBuffer.allocateDirect(4 * count).order(ByteOrder.nativeOrder());
    memory.read(0, data);
    for (int i = 0; i < count; i++) {
      assertEquals(value, data.getFloat(4 * i), "element " + i + " of " + count);
    }
  }

  /** The one rank calls its communicator first, the other the split. */
  @Test
  void differentOrdersAreNamed() {
    for (boolean debug : new boolean[] {true, false}) {
      CommunicatorConfig config = config(2).withName("all");
      List<Device> gpus = List.copyOf(Devices.cuda().list().subList(0, 2));
      List<Communicator> ranks =
          Communicator.initAll(
              gpus, debug ? config.with("NCCL_CHECK_MODE", "DEBUG_GLOBAL") : config);
      CommunicatorConfig named = CommunicatorConfig.defaults().withName("pair");
      List<Communicator> split = Ranks.all(ranks, rank -> rank.split(0, 0, named).orElseThrow());
      List<String> said =
          Ranks.all(ranks, rank -> unlike(rank, split.get(rank.rank()), debug)).stream()
              .flatMap(Optional::stream)
              .toList();
      // Without the comparison, what a rank sends after its deadline can end the other's wait.
      assertTrue(debug ? said.size() == 2 : !said.isEmpty(), "ranks that failed: " + said.size());
      assertTrue(
          said.stream().anyMatch(it -> it.startsWith(debug ? "Order" : "Timeout")), said::toString);
      for (String message : said) {
        assertTrue(message.contains("communicator all"), message);
        assertTrue(message.contains("communicator pair"), message);
        assertTrue(message.contains("withSplitShare(false)"), message);
      }
      split.forEach(comm -> comm.close(Duration.ofSeconds(5)));
      ranks.forEach(comm -> comm.close(Duration.ofSeconds(5)));
    }
  }

  /**
   * Compared are collectives. Of other operations those are sure to wait that receive what the
   * other rank sends behind its own.
   */
  private static Optional<String> unlike(Communicator rank, Communicator split, boolean debug) {
    int me = rank.rank();
    List<Communicator> order = me == 0 ? List.of(rank, split) : List.of(split, rank);
    try (DeviceMemory data = rank.device().allocate(4 * COUNT);
        DeviceStream stream = rank.device().createStream();
        DeviceStream second = rank.device().createStream()) {
      if (debug) {
        order.get(0).allReduce(data, data, COUNT, DataType.FLOAT32, RedOp.SUM, stream);
        order.get(1).allReduce(data, data, COUNT, DataType.FLOAT32, RedOp.SUM, second);
      } else {
        order.get(0).recv(data, COUNT, DataType.FLOAT32, 1 - me, stream);
        order.get(1).send(data, COUNT, DataType.FLOAT32, 1 - me, second);
      }
      stream.synchronize();
      second.synchronize();
      return Optional.empty();
    } catch (NcclException error) {
      return Optional.of(error.getClass().getSimpleName() + " " + error.getMessage());
    }
  }

  /**
   * Alike in shape, so that nothing waits: each takes the other's data, which must not go unseen.
   */
  @ParameterizedTest
  @ValueSource(ints = {2, 5000, 1 << 20})
  void whatGotTheDataOfAnotherIsNamed(int count) {
    List<Communicator> ranks = ranks(2, 10);
    List<Communicator> split = Ranks.all(ranks, rank -> rank.split(0, 0).orElseThrow());
    List<Communicator> second = Ranks.all(ranks, rank -> rank.split(1, 0).orElseThrow());
    List<String> said =
        Ranks.all(
            ranks,
            rank -> {
              List<Communicator> both = List.of(split.get(rank.rank()), second.get(rank.rank()));
              try (DeviceMemory data = rank.device().allocate(4L * count);
                  DeviceStream stream = rank.device().createStream()) {
                for (int i = 0; i < 2; i++) { // alike
                  both.get(i).allReduce(data, data, count, DataType.FLOAT32, RedOp.SUM, stream);
                }
                stream.synchronize();
                NcclException error =
                    assertThrows(
                        NcclException.class,
                        () -> {
                          for (int i = 0; i < 4; i++) {
                            both.get((i + rank.rank()) % 2)
                                .allReduce(data, data, count, DataType.FLOAT32, RedOp.SUM, stream);
                          }
                          stream.synchronize();
                        });
                return error.getClass().getSimpleName() + " " + error.getMessage();
              }
            });
    for (String message : said) {
      assertTrue(message.startsWith("OrderMismatch"), message);
      assertTrue(message.contains("withSplitShare(false)"), message);
    }
    second.forEach(comm -> comm.close(Duration.ofSeconds(5)));
    split.forEach(comm -> comm.close(Duration.ofSeconds(5)));
    ranks.forEach(comm -> comm.close(Duration.ofSeconds(5)));
  }

  @Test
  void whereOneRankStaysAwayAllFail() {
    List<Communicator> ranks = ranks(Devices.cuda().list().size(), 1);
    List<Communicator> split = Ranks.all(ranks, rank -> rank.split(0, 0).orElseThrow());
    try (DeviceMemory data = ranks.get(0).device().allocate(4000);
        DeviceStream stream = ranks.get(0).device().createStream();
        DeviceStream other = ranks.get(0).device().createStream()) {
      split.get(0).allReduce(data, data, 1000, DataType.FLOAT32, RedOp.SUM, stream);
      NcclException error =
          assertThrows(
              NcclException.class,
              () -> {
                ranks.get(0).allReduce(data, data, 1000, DataType.FLOAT32, RedOp.SUM, other);
                other.synchronize();
              });
      assertTrue(error.getMessage().contains(split.get(0).name()), error.getMessage());
      assertThrows(NcclException.class, stream::synchronize);
    }
    split.forEach(comm -> comm.close(Duration.ofSeconds(5)));
    ranks.forEach(comm -> comm.close(Duration.ofSeconds(5)));
  }
}
