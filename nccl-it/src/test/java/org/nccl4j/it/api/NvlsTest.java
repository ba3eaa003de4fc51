package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.logging.SimpleFormatter;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.NvlsMode;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.kernel.Nvls;
import org.nccl4j.device.numeric.Bfloat16;
import org.nccl4j.device.numeric.Float16;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;

/** NVLink SHARP as a user of the host device has it: emulated, chosen by a setting, or refused. */
@Timeout(600)
class NvlsTest {
  private static final CommunicatorConfig NVLS =
      CommunicatorConfig.defaults().with("NCCL_ALGO", "NVLS");
  private static final CommunicatorConfig RING =
      CommunicatorConfig.defaults().with("NCCL_ALGO", "Ring");

  /**
   * NVLS and ring give the same: bits where the order of the sums does not count, which are whole
   * numbers here. With chunks so small that slots are used many times over.
   */
  @ParameterizedTest
  @ValueSource(ints = {2, 3, 8})
  void ringAndNvlsAgree(int n) throws Exception {
    int count = 20_001;
    try (Ranks nvls = new Ranks(n, NVLS.with("NCCL_NVLS_CHUNKSIZE", "1000"));
        Ranks ring = new Ranks(n, RING)) {
      for (DataType type : DataType.values()) {
        for (RedOp op : List.of(RedOp.SUM, RedOp.MAX, RedOp.MIN)) {
          if (Nvls.has(Operation.ALL_REDUCE, type, op)) {
            long seed = 31L * type.ordinal() + op.ordinal();
            assertArrayEquals(
                run(ring, type, op, count, seed),
                run(nvls, type, op, count, seed),
                type + " " + op);
          }
        }
      }
    }
  }

  /** The results of rank n - 1 of three collectives. */
  private static byte[] run(Ranks ranks, DataType type, RedOp op, int count, long seed)
      throws Exception {
    int n = ranks.communicators.size();
    int bytes = count * type.bytes();
    ByteBuffer result = ByteBuffer.allocate(bytes * (n + 2));
    ranks.run(
        (comm, stream) -> {
          int rank = comm.rank();
          try (DeviceMemory send = small(type, n * count, seed * n + rank);
              DeviceMemory one = comm.device().allocate(bytes);
              DeviceMemory part = comm.device().allocate(bytes);
              DeviceMemory many = comm.device().allocate((long) n * bytes)) {
            comm.allReduce(send, one, count, type, op, stream);
            comm.reduceScatter(send, part, count, type, op, stream);
            comm.allGather(send, many, count, type, stream);
            stream.synchronize();
            if (rank == n - 1) {
              for (DeviceMemory memory : List.of(one, part, many)) {
                ByteBuffer target = result.slice(result.position(), (int) memory.size());
                memory.read(0, target);
                result.position(result.position() + (int) memory.size());
              }
            }
          }
        });
    return result.array();
  }

  /** Numbers from 0 to 7 in any type: sums of eight are exact, and order does not count. */
  private static DeviceMemory small(DataType type, int count, long seed) {
    Random random = new Random(seed);
    ByteBuffer data = ByteBuffer.allocate(count * type.bytes());
    data.order(ByteOrder.nativeOrder());
    for (int i = 0; i < count; i++) {
      int value = random.nextInt(8);
      switch (type) {
        case INT32, UINT32 -> data.putInt(value);
        case INT64, UINT64 -> data.putLong(value);
        case FLOAT32 -> data.putFloat(value);
        case FLOAT64 -> data.putDouble(value);
        case FLOAT16 -> data.putShort(Float16.fromFloat(value));
        case BFLOAT16 -> data.putShort(Bfloat16.fromFloat(value));
        default -> throw new IllegalArgumentException(type.label());
      }
    }
    DeviceMemory memory = Devices.host().allocate(data.capacity());
    memory.write(0, data.flip());
    return memory;
  }

  @Test
  void itIsChosenWhereItIsNamedAndHasTheOperation() {
    try (Ranks ranks = new Ranks(3, NVLS)) {
      Communicator comm = ranks.communicators.get(0);
      assertEquals(
          Algorithm.NVLS,
          comm.chosenAlgorithm(Operation.ALL_REDUCE, 1000, DataType.FLOAT32).algorithm());
      assertEquals(
          Algorithm.NVLS,
          comm.chosenAlgorithm(Operation.ALL_GATHER, 1000, DataType.INT8).algorithm());
      assertTrue(
          comm.chosenAlgorithm(Operation.ALL_REDUCE, 1000, DataType.INT8).algorithm()
              != Algorithm.NVLS,
          "the switch has no sums of bytes");
      assertTrue(
          comm.explain(Operation.ALL_REDUCE, 1000, DataType.FLOAT32).contains("chosen: NVLS"));
    }
  }

  /** Operations without NVLS use another algorithm. */
  @Test
  void productsAreRightAllTheSame() throws Exception {
    try (Ranks ranks = new Ranks(2, NVLS)) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory data = Ranks.floats(100, i -> comm.rank() + 2)) {
              comm.allReduce(data, data, 100, DataType.FLOAT32, RedOp.PROD, stream);
              stream.synchronize();
              assertEquals(6f, Ranks.floats(data)[99]);
            }
          });
    }
  }

  @Test
  void emulationIsAChoiceAndTheCostModelKnowsIt() {
    try (Ranks ranks =
        new Ranks(2, CommunicatorConfig.defaults().withNvlsMode(NvlsMode.EMULATED))) {
      String table =
          ranks.communicators.get(0).explain(Operation.ALL_REDUCE, 1000, DataType.FLOAT32);
      assertTrue(table.contains("NVLS     Simple"), table);
    }
    try (Ranks ranks = new Ranks(2)) {
      String table =
          ranks.communicators.get(0).explain(Operation.ALL_REDUCE, 1000, DataType.FLOAT32);
      assertTrue(!table.contains("NVLS"), table);
    }
  }

  /** Refusals are one warning, with the reason, and the communicator works. */
  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "NCCL4J_NVLS_MODE=hardware | the host device has no switch",
        "NCCL4J_NVLS_MODE=hardware,NCCL_NVLS_ENABLE=0 | NCCL_NVLS_ENABLE=0 forbids",
        "NCCL4J_NVLS_MODE=off,NCCL_ALGO=NVLS | ",
        "NCCL4J_NVLS_MODE=auto,NCCL_ALGO=^NVLS | ",
      })
  void aRefusalIsOneWarning(String settings, String warning) throws Exception {
    CommunicatorConfig config = CommunicatorConfig.defaults();
    for (String setting : settings.split(",")) {
      config = config.with(setting.split("=")[0], setting.split("=")[1]);
    }
    List<String> warnings = new ArrayList<>();
    Logger logger = Logger.getLogger("org.nccl4j.NVLS");
    Handler handler = collect(warnings);
    logger.addHandler(handler);
    try (Ranks ranks = new Ranks(3, config)) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory data = Ranks.floats(10, i -> 1)) {
              comm.allReduce(data, data, 10, DataType.FLOAT32, RedOp.SUM, stream);
              stream.synchronize();
              assertEquals(3f, Ranks.floats(data)[9]);
            }
          });
    } finally {
      logger.removeHandler(handler);
    }
    if (warning == null) {
      assertEquals(List.of(), warnings);
    } else {
      assertEquals(1, warnings.size(), warnings::toString);
      assertTrue(warnings.get(0).contains(warning), warnings::toString);
    }
  }

  private static Handler collect(List<String> warnings) {
    return collect(warnings, Level.WARNING);
  }

  static Handler collect(List<String> warnings, Level least) {
    return new Handler() {
      @Override
      public void publish(LogRecord record) {
        if (record.getLevel().intValue() >= least.intValue()) {
          synchronized (warnings) {
            warnings.add(new SimpleFormatter().formatMessage(record));
          }
        }
      }

      @Override
      public void flush() {}

      @Override
      public void close() {}
    };
  }

  /** A machine as a file has it, with an NVSwitch, and its GPUs in another order than the ranks. */
  @Test
  void headsAndChannelsComeFromTheTopology(@TempDir Path folder) throws Exception {
    StringBuilder text =
        new StringBuilder(
            "<system version=\"1\">\n<cpu numaid=\"0\" arch=\"x86_64\" vendor=\"AuthenticAMD\">\n");
    for (int gpu = 0; gpu < 4; gpu++) {
      text.append(
          "<pci busid=\"0000:1%d:00.0\" class=\"0x030200\" link_speed=\"32.0 GT/s PCIe\""
                  .formatted(gpu)
              + " link_width=\"16\"><gpu dev=\"%d\" sm=\"90\" rank=\"%d\" gdr=\"1\">"
                  .formatted(gpu, 3 - gpu)
              + "<nvlink target=\"0000:20:00.0\" count=\"18\" tclass=\"0x068000\"/></gpu></pci>\n");
    }
    Path file = Files.writeString(folder.resolve("four.xml"), text + "</cpu>\n</system>\n");
    List<String> lines = new ArrayList<>();
    Logger logger = Logger.getLogger("org.nccl4j.NVLS");
    Handler handler = collect(lines, Level.FINE);
    Level before = logger.getLevel();
    logger.setLevel(Level.FINE);
    logger.addHandler(handler);
    try (Ranks ranks = new Ranks(4, NVLS.with("NCCL_TOPO_FILE", file.toString()))) {
      OperationsTest.everyOperation(ranks, 12_345);
    } finally {
      logger.removeHandler(handler);
      logger.setLevel(before);
    }
    assertTrue(
        lines.stream().anyMatch(line -> line.contains("heads [3, 2, 1, 0]")), lines::toString);
  }

  /** Small and large operations in turn, so that words and slots wrap round between kernels. */
  @Test
  void manyOperationsInARow() throws Exception {
    try (Ranks ranks = new Ranks(4, NVLS)) {
      ranks.run(NvlsTest::inARow);
    }
  }

  private static void inARow(Communicator comm, DeviceStream stream) {
    int large = 300_000;
    try (DeviceMemory data = Ranks.floats(large, i -> 1);
        DeviceMemory few = Ranks.floats(5, i -> comm.rank())) {
      for (int round = 0; round < 40; round++) {
        comm.allReduce(few, few, 5, DataType.FLOAT32, RedOp.AVG, stream);
        if (round % 8 == 0) {
          comm.allReduce(data, data, large, DataType.FLOAT32, RedOp.AVG, stream);
        }
      }
      stream.synchronize();
      assertEquals(1f, Ranks.floats(data)[large - 1]);
      assertEquals(1.5f, Ranks.floats(few)[4]);
    }
  }
}
