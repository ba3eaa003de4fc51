package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.ExpertConfig;
import org.nccl4j.api.ExpertExchange;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.cuda.CudaGraph;
import org.nccl4j.device.cuda.CudaStream;

/** Dispatch to experts and combine by kernels on all GPUs. Needs GPUs. */
@Tag("gpu")
@Timeout(600)
class ExpertsGpuTest {
  private static final long SEED = Long.getLong("nccl4j.seed", 1);

  private static Ranks ranks(List<? extends Device> devices) {
    CommunicatorConfig config =
        CommunicatorConfig.defaults().withOperationTimeout(Duration.ofSeconds(30));
    return new Ranks(Communicator.initAll(List.copyOf(devices), config));
  }

  private static Ranks ranks() {
    return ranks(Devices.cuda().list());
  }

  private static void rounds(Ranks ranks, int rounds, ExpertConfig... all) throws Exception {
    System.out.println("seed " + SEED);
    for (ExpertConfig sizes : all) {
      ranks.run((comm, stream) -> Experts.run(comm, stream, sizes, rounds, SEED));
    }
  }

  @Test
  void randomTokens() throws Exception {
    try (Ranks ranks = ranks()) {
      int n = ranks.communicators.size();
      rounds(
          ranks,
          6,
          new ExpertConfig(33, 256, 3, 4 * n, DataType.BFLOAT16, false),
          new ExpertConfig(7, 12, 2, 9 * n, DataType.FLOAT32, false),
          new ExpertConfig(1, 8, 8, n, DataType.FLOAT16, false),
          new ExpertConfig(200, 40, 4, 512 * n, DataType.BFLOAT16, false));
      rounds(ranks, 2, new ExpertConfig(300, 1032, 6, 130 * n, DataType.FLOAT16, false));
      // A block has so many tokens that it combines them in batches.
      rounds(ranks, 5, new ExpertConfig(2500, 264, 4, 16 * n, DataType.BFLOAT16, false));
    }
  }

  @Test
  void randomTokensAsFp8() throws Exception {
    try (Ranks ranks = ranks()) {
      int n = ranks.communicators.size();
      rounds(
          ranks,
          6,
          new ExpertConfig(33, 256, 3, 4 * n, DataType.BFLOAT16, true),
          new ExpertConfig(5, 384, 3, n, DataType.FLOAT32, true),
          new ExpertConfig(150, 128, 1, 32 * n, DataType.FLOAT16, true),
          new ExpertConfig(300, 1152, 40, 8 * n, DataType.BFLOAT16, true));
    }
  }

  /** As between GPUs whose links may tear a line. */
  @Test
  void linesThatArriveInParts() throws Exception {
    CommunicatorConfig config =
        CommunicatorConfig.defaults()
            .withOperationTimeout(Duration.ofSeconds(30))
            .with("NCCL_PROTO", "^LL128");
    List<Device> devices = List.copyOf(Devices.cuda().list());
    try (Ranks ranks = new Ranks(Communicator.initAll(devices, config))) {
      int n = devices.size();
      rounds(
          ranks,
          4,
          new ExpertConfig(150, 1152, 3, 4 * n, DataType.BFLOAT16, true),
          new ExpertConfig(200, 1032, 4, 9 * n, DataType.FLOAT16, false));
    }
  }

  @Test
  void aSingleRank() throws Exception {
    try (Ranks ranks = ranks(Devices.cuda().list().subList(0, 1))) {
      rounds(ranks, 4, new ExpertConfig(10, 16, 2, 5, DataType.BFLOAT16, false));
    }
  }

  /** Between hosts, as these ranks say they are, kernels pack, place and add. */
  @Test
  void ranksOfSeveralHosts() throws Exception {
    assumeTrue(
        Devices.cuda().list().size() > 1,
        "needs 2 GPUs: kernels of ranks on one may wait for each other's launches");
    try (Ranks ranks = Ranks.onHosts("ab", Devices.cuda().list(), CommunicatorConfig.defaults())) {
      ranks.run(
          (comm, stream) -> {
            try (ExpertExchange exchange =
                comm.createExpertExchange(new ExpertConfig(3, 8, 1, 2, DataType.FLOAT32, false))) {
              assertTrue(!exchange.isCapturable());
            }
          });
      rounds(
          ranks,
          6,
          new ExpertConfig(6, 128, 2, 6, DataType.BFLOAT16, true),
          new ExpertConfig(33, 1152, 3, 8, DataType.FLOAT32, true),
          new ExpertConfig(7, 12, 2, 18, DataType.FLOAT32, false),
          new ExpertConfig(200, 1032, 4, 260, DataType.FLOAT16, false),
          new ExpertConfig(150, 640, 40, 16, DataType.BFLOAT16, true));
    }
  }

  @Test
  void hostsAddTheirOutputs() throws Exception {
    List<? extends Device> devices = Devices.cuda().list();
    assumeTrue(devices.size() > 1, "needs 2 GPUs");
    String hosts = devices.size() > 3 ? "aabb" : "ab";
    try (Ranks ranks =
        Ranks.onHosts(hosts, devices.subList(0, hosts.length()), CommunicatorConfig.defaults())) {
      for (ExpertConfig config :
          List.of(
              new ExpertConfig(33, 1152, 6, 16, DataType.BFLOAT16, true, true),
              new ExpertConfig(50, 1032, 4, 12, DataType.FLOAT16, false, true),
              new ExpertConfig(20, 12, 3, 4, DataType.FLOAT32, false, true))) {
        ranks.run((comm, stream) -> Experts.run(comm, stream, config, hosts, 4, SEED));
      }
    }
  }

  /** Processes that count as hosts of their own. */
  @Test
  void ranksInProcesses() throws Exception {
    assumeTrue(Devices.cuda().list().size() >= 2, "needs 2 GPUs");
    HostProcesses.run("ab", Device.Kind.CUDA, ExpertRank.class, SEED);
  }

  /** On two hosts of two ranks each, a relay forwards tokens. */
  public static final class ByRelays implements HostProcesses.Program {
    @Override
    public void run(Communicator comm, DeviceStream stream, String hosts, long seed)
        throws Exception {
      int n = comm.nRanks();
      for (boolean hostsAdd : new boolean[] {false, true}) {
        for (ExpertConfig sizes :
            List.of(
                new ExpertConfig(33, 1152, 6, 4 * n, DataType.BFLOAT16, true, hostsAdd),
                new ExpertConfig(50, 1032, 4, 3 * n, DataType.FLOAT16, false, hostsAdd),
                new ExpertConfig(20, 12, 3, n, DataType.FLOAT32, false, hostsAdd))) {
          Experts.run(comm, stream, sizes, hostsAdd ? hosts : "a".repeat(n), 4, seed);
        }
      }
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"aabb", "abab", "aabbcc"})
  void severalRanksOfAHost(String hosts) throws Exception {
    System.out.println("seed " + SEED);
    HostProcesses.run(hosts, Device.Kind.CUDA, ByRelays.class, SEED);
  }

  /** The experts return what they got, so the sums are the tokens times the sums of weights. */
  @Test
  void replaysOfAGraph() throws Exception {
    int most = 50;
    int hidden = 64;
    try (Ranks ranks = ranks()) {
      int n = ranks.communicators.size();
      ExpertConfig sizes = new ExpertConfig(most, hidden, 2, 3 * n, DataType.FLOAT32, false);
      ranks.run(
          (comm, own) -> {
            CudaStream stream = (CudaStream) own;
            Device device = comm.device();
            try (ExpertExchange exchange = comm.createExpertExchange(sizes);
                DeviceMemory tokens = device.allocate(4L * most * hidden);
                DeviceMemory experts = device.allocate(4L * most * 2);
                DeviceMemory weights = device.allocate(4L * most * 2);
                DeviceMemory result = device.allocate(4L * most * hidden)) {
              assertTrue(exchange.isCapturable());
              stream.beginCapture();
              if (comm.rank() == 0) { // the parts of the others' calls
                exchange.beginDispatch(tokens, experts, weights, most, stream).receive(stream);
                exchange.beginCombine(exchange.received(), result, stream).receive(stream);
              } else {
                exchange.dispatch(tokens, experts, weights, most, stream);
                exchange.combine(exchange.received(), result, stream);
              }
              try (CudaGraph graph = stream.endCapture()) {
                Random random = new Random(SEED + comm.rank());
                for (int replay = 0; replay < 5; replay++) {
                  replay(comm, graph, stream, random, tokens, experts, weights, result);
                }
              }
            }
          });
    }
  }

  private static void replay(
      Communicator comm,
      CudaGraph graph,
      CudaStream stream,
      Random random,
      DeviceMemory tokens,
      DeviceMemory experts,
      DeviceMemory weights,
      DeviceMemory result) {
    int most = (int) (experts.size() / 8);
    int hidden = (int) (tokens.size() / 4 / most);
    float[] x = new float[most * hidden];
    float[] w = new float[most * 2];
    int[] e = random.ints(most * 2L, -1, 3 * comm.nRanks()).toArray();
    for (int i = 0; i < x.length; i++) {
      x[i] = random.nextFloat();
    }
    for (int i = 0; i < w.length; i++) {
      w[i] = random.nextFloat();
    }
    tokens.write(0, bytes(x));
    weights.write(0, bytes(w));
    ByteBuffer numbers = ByteBuffer.allocate(4 * e.length).order(ByteOrder.nativeOrder());
    numbers.asIntBuffer().put(e);
    experts.write(0, numbers);
    result.fill((byte) 0x5a);
    graph.launch(stream);
    stream.synchronize();
    float[] sums = new float[x.length];
    for (int i = 0; i < sums.length; i++) {
      for (int k = 0; k < 2; k++) {
        int entry = i / hidden * 2 + k;
        sums[i] += e[entry] < 0 ? 0 : w[entry] * x[i];
      }
    }
    ByteBuffer read = ByteBuffer.allocate((int) result.size());
    result.read(0, read);
    assertArrayEquals(bytes(sums).array(), read.array(), "seed " + SEED);
  }

  private static ByteBuffer bytes(float[] values) {
    ByteBuffer bytes = ByteBuffer.allocate(4 * values.length).order(ByteOrder.nativeOrder());
    bytes.asFloatBuffer().put(values);
    return bytes;
  }

  @Test
  void anExpertThatDoesNotExistIsAnErrorOfAllRanks() throws Exception {
    assertFails(8, 12, 64, "entry 5 of the experts is 12");
  }

  @Test
  void outputsWithoutRoomAreAnErrorOfAllRanks() throws Exception {
    assertFails(8, 0, 3, "the outputs have room for 3 rows");
  }

  @Test
  void outputsWithoutRoomForManyTokensAreAnErrorOfAllRanks() throws Exception {
    assertFails(6000, 0, 3, "the outputs have room for 3 rows");
  }

  /** The first rank passes an expert and rows of outputs; all ranks must see an error. */
  private static void assertFails(int most, int wrong, int rows, String word) throws Exception {
    try (Ranks ranks = ranks()) {
      int n = ranks.communicators.size();
      ExpertConfig sizes = new ExpertConfig(most, 8, 2, 12 / n * n, DataType.FLOAT32, false);
      ranks.run(
          (comm, stream) -> {
            int[] experts = new int[2 * most];
            Arrays.fill(experts, 0);
            experts[5] = comm.rank() == 0 ? wrong : 0;
            ByteBuffer numbers = ByteBuffer.allocate(8 * most).order(ByteOrder.nativeOrder());
            numbers.asIntBuffer().put(experts);
            Device device = comm.device();
            try (ExpertExchange exchange = comm.createExpertExchange(sizes);
                DeviceMemory tokens = device.allocate(most * 32L);
                DeviceMemory to = device.allocate(8L * most);
                DeviceMemory weights = device.allocate(8L * most);
                DeviceMemory outputs =
                    device.allocate(comm.rank() == 0 ? rows * 32L : 64L * most * n)) {
              to.write(0, numbers);
              NcclException e =
                  assertThrows(
                      NcclException.class,
                      () -> {
                        exchange.dispatch(tokens, to, weights, most, stream);
                        exchange.combine(outputs, tokens, stream);
                        stream.synchronize();
                        comm.asyncError()
                            .ifPresent(
                                failed -> {
                                  throw failed;
                                });
                      });
              if (comm.rank() == 0) {
                assertEquals(InvalidArgumentException.class, e.getClass(), e.toString());
                assertTrue(e.getMessage().contains(word), e.getMessage());
              }
            }
          });
    }
  }
}
