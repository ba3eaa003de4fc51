package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.CommunicatorConfig.Determinism;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.RedOp;

/** The same bits again: in another run, another process, and, where asked for, another size. */
@Timeout(600)
class DeterminismTest {
  private static final int RANKS = 3;
  private static final int MOST = 70_000;
  private static final int[] SIZES = {1, 7, 1000, 20_001, MOST};

  /** Numbers whose sum depends on the order. */
  private static float[] numbers(int rank) {
    Random random = new Random(99 + rank);
    float[] numbers = new float[MOST];
    for (int i = 0; i < MOST; i++) {
      numbers[i] = (float) (random.nextGaussian() * Math.pow(10, random.nextInt(8)));
    }
    return numbers;
  }

  /** A checksum of the bits of each size's all-reduce, and the whole of the first elements. */
  static int[] results(Communicator comm, DeviceStream stream) {
    float[] mine = numbers(comm.rank());
    List<Integer> sums = new ArrayList<>();
    for (int size : SIZES) {
      for (RedOp op : new RedOp[] {RedOp.SUM, RedOp.AVG, RedOp.PROD}) {
        try (DeviceMemory data = Ranks.floats(size, i -> mine[i])) {
          comm.allReduce(data, data, size, DataType.FLOAT32, op, stream);
          stream.synchronize();
          sums.add(Arrays.hashCode(bits(data)));
        }
      }
    }
    return sums.stream().mapToInt(Integer::intValue).toArray();
  }

  private static byte[] bits(DeviceMemory memory) {
    byte[] bytes = new byte[(int) memory.size()];
    memory.read(0, ByteBuffer.wrap(bytes).order(ByteOrder.nativeOrder()));
    return bytes;
  }

  private static int[] inThreads(CommunicatorConfig config) throws Exception {
    int[][] all = new int[RANKS][];
    try (Ranks ranks = new Ranks(RANKS, config)) {
      ranks.run((comm, stream) -> all[comm.rank()] = results(comm, stream));
    }
    for (int[] each : all) {
      assertArrayEquals(all[0], each, "ranks differ");
    }
    return all[0];
  }

  @Test
  void everyAlgorithmGivesTheSameBitsAgain() throws Exception {
    for (String algorithm : List.of("", "Ring", "Tree", "OneShot", "TwoShot", "Doubling")) {
      for (String protocol : List.of("Simple", "LL")) {
        CommunicatorConfig config =
            CommunicatorConfig.defaults().with("NCCL_ALGO", algorithm).with("NCCL_PROTO", protocol);
        assertArrayEquals(inThreads(config), inThreads(config), algorithm + " " + protocol);
      }
    }
  }

  /** GPUs multiply by the reciprocal, which may differ in the last bit. */
  @Test
  void hostsDivideEachElementOfAMeanBeforeTheyAddIt() throws Exception {
    CommunicatorConfig config = CommunicatorConfig.defaults().with("NCCL_ALGO", "OneShot");
    float[][] all = {numbers(0), numbers(1), numbers(2)};
    float[] means = new float[1000];
    boolean differs = false;
    for (int i = 0; i < means.length; i++) {
      means[i] = all[0][i] / RANKS + all[1][i] / RANKS + all[2][i] / RANKS;
      differs |= means[i] != (all[0][i] + all[1][i] + all[2][i]) / RANKS;
    }
    assertTrue(differs, "no quotient of a sum");
    try (Ranks ranks = new Ranks(RANKS, config)) {
      ranks.run(
          (comm, stream) -> {
            float[] mine = all[comm.rank()];
            try (DeviceMemory data = Ranks.floats(means.length, i -> mine[i])) {
              comm.allReduce(data, data, means.length, DataType.FLOAT32, RedOp.AVG, stream);
              stream.synchronize();
              assertArrayEquals(bits(Ranks.floats(means.length, i -> means[i])), bits(data));
            }
          });
    }
  }

  @Test
  void patAddsChildrenToARanksOwnFromTheNearestOn() throws Exception {
    int n = 6;
    int part = 5000;
    CommunicatorConfig config = CommunicatorConfig.defaults().with("NCCL_ALGO", "PAT");
    float[][] all = new float[n][];
    for (int rank = 0; rank < n; rank++) {
      all[rank] = numbers(rank);
    }
    try (Ranks ranks = SeveralHosts.of(n, 1, config)) {
      ranks.run(
          (comm, stream) -> {
            int rank = comm.rank();
            try (DeviceMemory send = Ranks.floats(n * part, i -> all[rank][i]);
                DeviceMemory recv = Ranks.floats(part, i -> 0);
                DeviceMemory sums =
                    Ranks.floats(part, i -> patSum(all, rank, 0, rank * part + i))) {
              comm.reduceScatter(send, recv, part, DataType.FLOAT32, RedOp.SUM, stream);
              stream.synchronize();
              assertArrayEquals(bits(sums), bits(recv));
            }
          });
    }
  }

  /** The sum of the subtree of a rank some places after the owner of an element. */
  private static float patSum(float[][] all, int owner, int place, int element) {
    float sum = all[(owner + place) % all.length][element];
    for (int distance = 1; place + distance < all.length; distance *= 2) {
      if (place % (2 * distance) == 0) {
        sum += patSum(all, owner, place + distance, element);
      }
    }
    return sum;
  }

  @ParameterizedTest
  @ValueSource(ints = {2, 3, 4, 6, 7, 8, 9})
  void doublingAddsSumsOfChildrenToARanksOwnInRankOrder(int n) throws Exception {
    int count = 5000;
    int root = n - 2;
    CommunicatorConfig config = CommunicatorConfig.defaults().with("NCCL_ALGO", "Doubling");
    float[][] all = new float[n][];
    for (int rank = 0; rank < n; rank++) {
      all[rank] = numbers(rank);
    }
    try (Ranks ranks = new Ranks(n, config)) {
      ranks.run(
          (comm, stream) -> {
            int rank = comm.rank();
            try (DeviceMemory send = Ranks.floats(count, i -> all[rank][i]);
                DeviceMemory recv = Ranks.floats(count, i -> 0);
                DeviceMemory sums = Ranks.floats(count, i -> doublingSum(all, root, 0, i))) {
              comm.reduce(send, recv, count, DataType.FLOAT32, RedOp.SUM, root, stream);
              stream.synchronize();
              if (rank == root) {
                assertArrayEquals(bits(sums), bits(recv));
              }
            }
          });
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {2, 3, 4, 6, 7, 8, 9})
  void doublingAddsSumsOfNeighboursInRankOrder(int n) throws Exception {
    int part = 700;
    CommunicatorConfig config = CommunicatorConfig.defaults().with("NCCL_ALGO", "Doubling");
    float[][] all = new float[n][];
    for (int rank = 0; rank < n; rank++) {
      all[rank] = numbers(rank);
    }
    try (Ranks ranks = new Ranks(n, config)) {
      ranks.run(
          (comm, stream) -> {
            int rank = comm.rank();
            int whole = n * part;
            try (DeviceMemory send = Ranks.floats(whole, i -> all[rank][i]);
                DeviceMemory recv = Ranks.floats(whole, i -> 0);
                DeviceMemory sums = Ranks.floats(whole, i -> exchanged(all, i, false));
                DeviceMemory own = Ranks.floats(part, i -> 0);
                DeviceMemory ownSums =
                    Ranks.floats(part, i -> exchanged(all, rank * part + i, true))) {
              comm.allReduce(send, recv, whole, DataType.FLOAT32, RedOp.SUM, stream);
              comm.reduceScatter(send, own, part, DataType.FLOAT32, RedOp.SUM, stream);
              stream.synchronize();
              assertArrayEquals(bits(sums), bits(recv));
              assertArrayEquals(bits(ownSums), bits(own));
            }
          });
    }
  }

  /**
   * The sum that partners at distances of powers of two make, beginning with the farthest or not.
   */
  private static float exchanged(float[][] all, int element, boolean farthestFirst) {
    int members = Integer.highestOneBit(all.length);
    int spares = all.length - members;
    List<Float> sums = new ArrayList<>();
    for (int member = 0; member < members; member++) {
      int rank = member < spares ? 2 * member : member + spares;
      float own = all[rank][element];
      sums.add(member < spares ? own + all[rank + 1][element] : own);
    }
    while (sums.size() > 1) {
      int half = sums.size() / 2;
      List<Float> next = new ArrayList<>();
      for (int pair = 0; pair < half; pair++) {
        next.add(
            farthestFirst
                ? sums.get(pair) + sums.get(pair + half)
                : sums.get(2 * pair) + sums.get(2 * pair + 1));
      }
      sums = next;
    }
    return sums.get(0);
  }

  /** The sum of the subtree of a rank some places after the root. */
  private static float doublingSum(float[][] all, int root, int place, int element) {
    int n = all.length;
    TreeMap<Integer, Float> children = new TreeMap<>();
    for (int distance = 1; place + distance < n && (place & distance) == 0; distance *= 2) {
      int child = place + distance;
      children.put((root + child) % n, doublingSum(all, root, child, element));
    }
    float sum = all[(root + place) % n][element];
    for (float below : children.values()) {
      sum += below;
    }
    return sum;
  }

  @Test
  void oneThreadForAllRanksGivesTheSameBitsAsOneForEach() throws Exception {
    List<Integer> sums = new ArrayList<>();
    float[][] all = {numbers(0), numbers(1), numbers(2)};
    try (Ranks ranks = new Ranks(RANKS)) {
      for (int size : SIZES) {
        for (RedOp op : new RedOp[] {RedOp.SUM, RedOp.AVG, RedOp.PROD}) {
          List<DeviceMemory> data = new ArrayList<>();
          for (float[] mine : all) {
            data.add(Ranks.floats(size, i -> mine[i]));
          }
          Group.run(
              () -> {
                for (Communicator comm : ranks.communicators) {
                  DeviceMemory own = data.get(comm.rank());
                  DeviceStream stream = ranks.streams.get(comm.rank());
                  comm.allReduce(own, own, size, DataType.FLOAT32, op, stream);
                }
              });
          ranks.streams.forEach(DeviceStream::synchronize);
          sums.add(Arrays.hashCode(bits(data.get(RANKS - 1))));
          data.forEach(DeviceMemory::close);
        }
      }
    }
    int[] one = sums.stream().mapToInt(Integer::intValue).toArray();
    assertArrayEquals(inThreads(CommunicatorConfig.defaults()), one);
  }

  @Test
  void processesGiveTheSameBitsAsThreads() throws Exception {
    int[] expected = inThreads(CommunicatorConfig.defaults());
    UniqueId id = UniqueId.create();
    List<Process> processes = new ArrayList<>();
    for (int rank = 0; rank < RANKS; rank++) {
      processes.add(start(id, rank));
    }
    for (Process process : processes) {
      String said =
          new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8).trim();
      assertTrue(process.waitFor(300, TimeUnit.SECONDS));
      assertEquals(Arrays.toString(expected), said);
    }
  }

  private static Process start(UniqueId id, int rank) throws Exception {
    List<String> command = RankJvm.command();
    command.addAll(List.of(DeterminismTest.class.getName(), Integer.toString(rank)));
    ProcessBuilder builder = new ProcessBuilder(command);
    builder.environment().putAll(Map.of("TEST_ID", id.toString()));
    builder.redirectError(ProcessBuilder.Redirect.INHERIT);
    return builder.start();
  }

  /** A rank in a process: says its results. */
  public static void main(String[] arguments) {
    int rank = Integer.parseInt(arguments[0]);
    UniqueId id = UniqueId.parse(System.getenv("TEST_ID"));
    try (Communicator comm = Communicator.initRank(RANKS, id, rank, Devices.host());
        DeviceStream stream = Devices.host().createStream()) {
      System.out.println(Arrays.toString(results(comm, stream)));
    }
  }

  @Test
  void anElementsSumDoesNotDependOnTheSizeWhereThatIsAskedFor() throws Exception {
    CommunicatorConfig config =
        CommunicatorConfig.defaults().withDeterminism(Determinism.SIZE_INVARIANT);
    try (Ranks ranks = new Ranks(RANKS, config)) {
      ranks.run(
          (comm, stream) -> {
            float[] mine = numbers(comm.rank());
            int[] firsts = new int[SIZES.length];
            for (int s = 0; s < SIZES.length; s++) {
              try (DeviceMemory data = Ranks.floats(SIZES[s], i -> mine[i])) {
                comm.allReduce(data, data, SIZES[s], DataType.FLOAT32, RedOp.SUM, stream);
                stream.synchronize();
                float[] got = Ranks.floats(data);
                firsts[s] = Float.floatToRawIntBits(got[0]);
                for (int i : new int[] {0, got.length / 2, got.length - 1}) {
                  assertEquals(inRankOrder(i), got[i], "element " + i + " of " + got.length);
                }
              }
            }
            assertEquals(1, Arrays.stream(firsts).distinct().count());
          });
    }
  }

  private static float inRankOrder(int element) {
    float sum = numbers(0)[element];
    for (int rank = 1; rank < RANKS; rank++) {
      sum += numbers(rank)[element];
    }
    return sum;
  }

  @Test
  void anAlgorithmAndSizeInvarianceContradictEachOther() {
    CommunicatorConfig config =
        CommunicatorConfig.defaults()
            .withDeterminism(Determinism.SIZE_INVARIANT)
            .with("NCCL_ALGO", "Ring");
    InvalidUsageException e =
        assertThrows(
            InvalidUsageException.class,
            () -> Communicator.initAll(List.of(Devices.host(), Devices.host()), config));
    assertTrue(e.getMessage().contains("NCCL_ALGO"), e.getMessage());
  }

  @Test
  void theAlgorithmsInRankOrderAreNoContradictionHoweverTheyAreWritten() {
    CommunicatorConfig config =
        CommunicatorConfig.defaults()
            .withDeterminism(Determinism.SIZE_INVARIANT)
            .with("NCCL_ALGO", "twoshot, oneshot");
    Communicator.initAll(List.of(Devices.host(), Devices.host()), config)
        .forEach(Communicator::close);
  }
}
