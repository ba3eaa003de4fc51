package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.api.Window;
import org.nccl4j.device.CudaFunctor;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.ReductionOperator;
import org.nccl4j.device.cuda.CudaGraph;
import org.nccl4j.device.cuda.CudaStream;
import org.nccl4j.device.cuda.DeviceHeaders;
import org.nccl4j.device.numeric.ElementWriter;
import org.nccl4j.device.numeric.FloatFormat;
import org.nccl4j.it.api.FunctionRound.Kind;
import org.nccl4j.operation.Operation;

/**
 * Reductions by users' functions on all GPUs, compiled by NVRTC (NCCL4J_NVRTC where it is not in
 * the usual places), and one by nvcc. Needs GPUs.
 */
@Tag("gpu")
@Timeout(600)
class FunctionReductionsGpuTest {
  private static final long SEED = Long.getLong("nccl4j.seed", 1);
  private static final int[] COUNTS = {1, 3, 1000, 4099, 300_001, 1 << 20};

  /** Takes and returns elements of any type; halves as float. */
  private static final String GREATEST =
      """
      struct Greatest {
        template <class T>
        __device__ T operator()(T a, T b) const { return a < b ? b : a; }
      };
      """;

  private static final String SUM =
      """
      struct Sum {
        __device__ float operator()(float a, float b) const { return a + b; }
      };
      """;

  private static CommunicatorConfig config() {
    return CommunicatorConfig.defaults().withOperationTimeout(Duration.ofSeconds(60));
  }

  private static Ranks ranks() {
    return new Ranks(Communicator.initAll(List.copyOf(Devices.cuda().list()), config()));
  }

  @BeforeAll
  static void tellTheSeed() {
    System.out.println("seed " + SEED);
  }

  @ParameterizedTest
  @EnumSource(Kind.class)
  void structsInTheOrderOfTheRanks(Kind kind) throws Exception {
    ReductionOperator operator = kind.cudaOperator();
    try (Ranks ranks = ranks()) {
      ranks.run(
          (comm, stream) -> {
            for (int count : new int[] {1, 2, 5, 1000, 4099, 70_001}) {
              for (int units : new int[] {0, 1}) {
                new FunctionRound(comm, stream, kind, operator, count, units).run();
              }
            }
          });
    }
  }

  @ParameterizedTest
  @EnumSource(Kind.class)
  void structsBetweenHosts(Kind kind) throws Exception {
    List<Device> devices = List.copyOf(Devices.cuda().list());
    StringBuilder hosts = new StringBuilder();
    for (int rank = 0; rank < devices.size(); rank++) {
      hosts.append((char) ('a' + rank * 2 / devices.size()));
    }
    ReductionOperator operator = kind.cudaOperator();
    try (Ranks ranks = Ranks.onHosts(hosts.toString(), devices, config())) {
      ranks.run(
          (comm, stream) -> {
            for (int count : new int[] {1, 1001, 70_001}) {
              new FunctionRound(comm, stream, kind, operator, count, 1).run();
            }
          });
    }
  }

  /** Few elements go to all ranks, of many each combines a part; no rank takes the others' data. */
  @ParameterizedTest
  @ValueSource(ints = {100, 3 << 20})
  void differentFunctionsOfRanksAreTold(int count) throws Exception {
    assumeTrue(Devices.cuda().list().size() > 1, "needs 2 GPUs");
    List<Integer> marks = new ArrayList<>();
    for (int rank = 0; rank < 2; rank++) {
      marks.add(sum(rank).mark(Device.Kind.CUDA));
    }
    try (Ranks ranks = ranks()) {
      NcclException error =
          assertThrows(
              NcclException.class,
              () ->
                  ranks.run(
                      (comm, stream) -> {
                        try (DeviceMemory data = comm.device().allocate(4L * count)) {
                          ReductionOperator sum = sum(Math.min(1, comm.rank()));
                          comm.allReduce(data, data, count, DataType.FLOAT32, sum, stream);
                          stream.synchronize();
                        }
                      }));
      assertTrue(error.getMessage().contains("make different calls"), error.toString());
      for (int mark : marks) {
        assertTrue(error.getMessage().contains("function %04x".formatted(mark)), error.toString());
      }
    }
  }

  /** A sum whose source differs from rank to rank. */
  private static ReductionOperator sum(int rank) {
    return ReductionOperator.function("sum", DataType.FLOAT32)
        .onCuda(CudaFunctor.ofSource("Sum", SUM + "// " + rank + "\n"))
        .build();
  }

  /** The greatest is one of the elements, so that its bits are known. */
  @ParameterizedTest
  @EnumSource(DataType.class)
  void everyType(DataType type) throws Exception {
    ReductionOperator greatest =
        ReductionOperator.function("greatest", type)
            .onCuda(CudaFunctor.ofSource("Greatest", GREATEST))
            .build();
    try (Ranks ranks = ranks()) {
      ranks.run(
          (comm, stream) -> {
            comm.prepare(Operation.ALL_REDUCE, 1, type, greatest);
            for (int count : COUNTS) {
              for (int offset : new int[] {0, 1}) {
                greatest(comm, stream, greatest, type, count, offset);
              }
            }
          });
    }
  }

  private static void greatest(
      Communicator comm,
      DeviceStream stream,
      ReductionOperator operator,
      DataType type,
      int count,
      int offset) {
    int bytes = type.bytes();
    byte[] expected = new byte[bytes * count];
    for (int i = 0; i < count; i++) {
      double most = Double.NEGATIVE_INFINITY;
      for (int rank = 0; rank < comm.nRanks(); rank++) {
        most = Math.max(most, value(rank, i));
      }
      put(type, expected, i, most);
    }
    byte[] own = new byte[bytes * count];
    for (int i = 0; i < count; i++) {
      put(type, own, i, value(comm.rank(), i));
    }
    long size = (long) bytes * (count + offset) + 16;
    try (DeviceMemory send = comm.device().allocate(size);
        DeviceMemory recv = comm.device().allocate(size)) {
      recv.fill((byte) 0xA5);
      send.write((long) bytes * offset, ByteBuffer.wrap(own));
      DeviceMemory from = send.slice((long) bytes * offset, expected.length);
      comm.allReduce(
          from, recv.slice((long) bytes * offset, expected.length), count, type, operator, stream);
      stream.synchronize();
      byte[] got = FunctionRound.bytes(recv, (int) size);
      ByteBuffer whole = ByteBuffer.allocate((int) size);
      for (int i = 0; i < size; i++) {
        whole.put((byte) 0xA5);
      }
      whole.put(bytes * offset, expected);
      assertArrayEquals(whole.array(), got, type + ", " + count + " elements");
      comm.allReduce(from, from, count, type, operator, stream); // in place
      stream.synchronize();
      byte[] inPlace = new byte[expected.length];
      send.read((long) bytes * offset, ByteBuffer.wrap(inPlace));
      assertArrayEquals(expected, inPlace, type + " in place, " + count + " elements");
    }
  }

  /** Small whole numbers from 0, which all types have. */
  private static double value(int rank, int i) {
    long mixed = (SEED + i * 31L + rank * 1_000_003L) * 0x9E3779B97F4A7C15L;
    return (mixed >>> 60) % 16;
  }

  private static void put(DataType type, byte[] to, int i, double value) {
    ElementWriter.put(
        type,
        ByteBuffer.wrap(to, i * type.bytes(), type.bytes()).slice().order(ByteOrder.nativeOrder()),
        value);
  }

  /** Sums of 16 bits are in float32 and rounded once, with the same bits by both ways. */
  @ParameterizedTest
  @EnumSource(
      value = DataType.class,
      names = {"FLOAT16", "BFLOAT16"})
  void sumsOfHalvesAreRoundedOnce(DataType type) throws Exception {
    FloatFormat format = FloatFormat.of(type);
    ReductionOperator sum =
        ReductionOperator.function("sum", type).onCuda(CudaFunctor.ofSource("Sum", SUM)).build();
    try (Ranks ranks = ranks()) {
      ranks.run(
          (comm, stream) -> {
            for (int count : new int[] {777, 500_003}) {
              short[][] all = new short[comm.nRanks()][count];
              for (int rank = 0; rank < all.length; rank++) {
                Random random = new Random(SEED + rank);
                for (int i = 0; i < count; i++) {
                  all[rank][i] = (short) format.fromDouble(random.nextGaussian());
                }
              }
              ByteBuffer own = ByteBuffer.allocate(2 * count).order(ByteOrder.nativeOrder());
              own.asShortBuffer().put(all[comm.rank()]);
              try (DeviceMemory data = comm.device().allocate(2L * count)) {
                data.write(0, own);
                comm.allReduce(data, data, count, type, sum, stream);
                stream.synchronize();
                ByteBuffer got = ByteBuffer.allocate(2 * count).order(ByteOrder.nativeOrder());
                data.read(0, got);
                for (int i = 0; i < count; i++) {
                  float exact = (float) format.toDouble(all[0][i]);
                  for (int rank = 1; rank < all.length; rank++) {
                    exact += (float) format.toDouble(all[rank][i]);
                  }
                  assertEquals(
                      (short) format.fromDouble(exact), got.getShort(2 * i), "element " + i);
                }
              }
            }
          });
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {1000, 1 << 18})
  void inWindows(int count) throws Exception {
    Kind kind = Kind.MATRICES;
    ReductionOperator operator = kind.cudaOperator();
    try (Ranks ranks = ranks()) {
      ranks.run(
          (comm, stream) -> {
            long bytes = 16L * count;
            try (DeviceMemory send = comm.device().memAlloc(bytes);
                DeviceMemory recv = comm.device().memAlloc(bytes)) {
              Window one = comm.registerWindow(send);
              Window two = comm.registerWindow(recv);
              send.fill((byte) (comm.rank() + 1));
              for (int times = 0; times < 5; times++) {
                recv.fill((byte) 0xA5);
                comm.allReduce(send, recv, bytes, DataType.UINT8, operator, stream);
                stream.synchronize();
                assertArrayEquals(
                    powers(kind, comm.nRanks(), count), FunctionRound.bytes(recv, (int) bytes));
              }
              comm.allReduce(send, send, bytes, DataType.UINT8, operator, stream);
              stream.synchronize();
              assertArrayEquals(
                  powers(kind, comm.nRanks(), count), FunctionRound.bytes(send, (int) bytes));
              comm.deregisterWindowOnAllRanks(one);
              comm.deregisterWindowOnAllRanks(two);
            }
          });
    }
  }

  /** The product of matrices of the bytes 1, 2 and so on. */
  private static byte[] powers(Kind kind, int n, int count) {
    ByteBuffer product = filled(1);
    for (int rank = 1; rank < n; rank++) {
      kind.combine(product, filled(rank + 1), product, 0);
    }
    byte[] all = new byte[16 * count];
    for (int i = 0; i < count; i++) {
      product.get(0, all, 16 * i, 16);
    }
    return all;
  }

  private static ByteBuffer filled(int value) {
    ByteBuffer matrix = ByteBuffer.allocate(16).order(ByteOrder.nativeOrder());
    for (int i = 0; i < 16; i++) {
      matrix.put(i, (byte) value);
    }
    return matrix;
  }

  /** One thread drives all GPUs: nothing is loaded while a kernel waits. */
  @ParameterizedTest
  @ValueSource(ints = {64, 1 << 16})
  void ofAllRanksInOneThread(int count) {
    Kind kind = Kind.MATRICES;
    // A source of its own, so that it is loaded here.
    ReductionOperator operator =
        ReductionOperator.functionOfStructs("product", 16)
            .onCuda(kind.cudaOperator().functor().withCompilerOptions("-DCOUNT=" + count))
            .notCommutative()
            .build();
    try (Ranks ranks = ranks()) {
      int n = ranks.communicators.size();
      List<DeviceMemory> data = new ArrayList<>();
      for (Communicator comm : ranks.communicators) {
        DeviceMemory memory = comm.device().allocate(16L * count);
        memory.fill((byte) (comm.rank() + 1));
        data.add(memory);
      }
      Group.run(
          () -> {
            for (int r = 0; r < n; r++) {
              ranks
                  .communicators
                  .get(r)
                  .allReduce(
                      data.get(r),
                      data.get(r),
                      16L * count,
                      DataType.UINT8,
                      operator,
                      ranks.streams.get(r));
            }
          });
      for (int r = 0; r < n; r++) {
        ranks.streams.get(r).synchronize();
        assertArrayEquals(powers(kind, n, count), FunctionRound.bytes(data.get(r), 16 * count));
        data.get(r).close();
      }
    }
  }

  /** Also with a larger call after the capture, which needs more memory. */
  @ParameterizedTest
  @ValueSource(ints = {100, 100_003})
  void inAGraph(int count) throws Exception {
    Kind kind = Kind.MATRICES;
    ReductionOperator operator = kind.cudaOperator();
    try (Ranks ranks = ranks()) {
      ranks.run(
          (comm, own) -> {
            CudaStream stream = (CudaStream) own;
            long bytes = 16L * count;
            try (DeviceMemory send = comm.device().allocate(bytes);
                DeviceMemory recv = comm.device().allocate(bytes);
                DeviceMemory larger = comm.device().allocate(4 * bytes)) {
              comm.prepare(Operation.ALL_REDUCE, bytes, DataType.UINT8, operator);
              stream.beginCapture();
              comm.allReduce(send, recv, bytes, DataType.UINT8, operator, stream);
              try (CudaGraph graph = stream.endCapture()) {
                larger.fill((byte) 0);
                comm.allReduce(larger, larger, 4 * bytes, DataType.UINT8, operator, stream);
                send.fill((byte) (comm.rank() + 1));
                for (int replay = 0; replay < 5; replay++) {
                  stream.synchronize();
                  recv.fill((byte) 0xA5);
                  graph.launch(stream);
                  stream.synchronize();
                  assertArrayEquals(
                      powers(kind, comm.nRanks(), count), FunctionRound.bytes(recv, (int) bytes));
                }
              }
            }
          });
    }
  }

  /** Every rank finds the error by itself, before anything is launched. */
  @Test
  void errorsOfTheCompilerNameTheUsersLines() throws Exception {
    assumeTrue(Devices.cuda().list().size() > 1, "needs 2 GPUs: one rank has nothing to combine");
    ReductionOperator wrong =
        ReductionOperator.function("wrong", DataType.FLOAT32)
            .onCuda(CudaFunctor.ofSource("Sum", SUM.replace("a + b", "a + c")))
            .build();
    ReductionOperator sum =
        ReductionOperator.function("sum", DataType.FLOAT32)
            .onCuda(CudaFunctor.ofSource("Sum", SUM))
            .build();
    try (Ranks ranks = ranks()) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory data = comm.device().allocate(4000)) {
              data.fill((byte) 0);
              InvalidUsageException error =
                  assertThrows(
                      InvalidUsageException.class,
                      () -> comm.allReduce(data, data, 1000, DataType.FLOAT32, wrong, stream));
              if (comm.nRanks() > 1) {
                assertTrue(error.getMessage().contains("Sum.cu(2): error"), error.getMessage());
              }
              comm.allReduce(data, data, 1000, DataType.FLOAT32, sum, stream);
              stream.synchronize();
            }
          });
    }
  }

  /** An image for this GPU, and one for another struct, which is refused. */
  @Test
  void imagesByNvcc(@TempDir Path folder) throws Exception {
    DeviceHeaders.unpack(folder);
    Path source = folder.resolve("product.cu");
    Files.writeString(
        source,
        "#include \"nccl4j_reduction.cuh\"\n"
            + Kind.MATRICES.cudaOperator().functor().source()
            + "NCCL4J_REDUCTION(Product, Matrix)\n");
    for (String kind : new String[] {"-cubin", "-fatbin", "-ptx"}) {
      Path image = folder.resolve("image" + kind);
      Process nvcc =
          new ProcessBuilder(
                  "nvcc",
                  kind,
                  "-arch=native",
                  "-I" + folder,
                  "-o",
                  image.toString(),
                  source.toString())
              .redirectErrorStream(true)
              .start();
      String output = new String(nvcc.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
      assertEquals(0, nvcc.waitFor(), output);
      ReductionOperator operator =
          ReductionOperator.functionOfStructs("product", 16)
              .onCuda(CudaFunctor.ofImage("Product", Files.readAllBytes(image)))
              .notCommutative()
              .build();
      ReductionOperator wrong =
          ReductionOperator.functionOfStructs("product", 12)
              .onCuda(CudaFunctor.ofImage("Product", Files.readAllBytes(image)))
              .build();
      try (Ranks ranks = ranks()) {
        ranks.run(
            (comm, stream) -> {
              new FunctionRound(comm, stream, Kind.MATRICES, operator, 2001, 0).run();
              if (comm.nRanks() > 1) {
                InvalidArgumentException error =
                    assertThrows(
                        InvalidArgumentException.class,
                        () -> comm.prepare(Operation.ALL_REDUCE, 120, DataType.UINT8, wrong));
                assertTrue(error.getMessage().contains("elements of 16 bytes"), error.getMessage());
              }
            });
      }
    }
  }
}
