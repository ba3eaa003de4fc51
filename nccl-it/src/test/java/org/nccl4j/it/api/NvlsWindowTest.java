package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.NvlsMode;
import org.nccl4j.api.Window;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.numeric.FloatFormat;
import org.nccl4j.operation.Operation;

/** NVLS on buffers in windows, in place: what comes out is what comes out without windows. */
@Timeout(600)
class NvlsWindowTest {
  private static final int MOST = 30_000;
  private static final CommunicatorConfig NVLS =
      CommunicatorConfig.defaults().with("NCCL_ALGO", "NVLS");
  private static final List<DataType> TYPES =
      List.of(DataType.INT32, DataType.UINT32, DataType.INT64, DataType.UINT64);

  /** Integers, whose sums, means, least and greatest do not depend on the order. */
  @ParameterizedTest
  @ValueSource(ints = {2, 3, 5})
  void itGivesWhatTheOtherWaysGive(int n) throws Exception {
    try (Ranks ranks = new Ranks(n, NVLS)) {
      ranks.run((comm, stream) -> everything(comm, stream, 40 + n));
    }
  }

  private static void everything(Communicator comm, DeviceStream stream, long seed) {
    int n = comm.nRanks();
    Random common = new Random(seed);
    try (DeviceMemory a = Devices.host().memAlloc(8L * MOST * n + 4096);
        DeviceMemory b = Devices.host().memAlloc(8L * MOST * n + 4096);
        DeviceMemory plain = Devices.host().allocate(8L * MOST * n);
        DeviceMemory expected = Devices.host().allocate(8L * MOST * n)) {
      Window sends = comm.registerWindow(a);
      Window receives = comm.registerWindow(b);
      String table = comm.explain(Operation.ALL_REDUCE, 1000, DataType.INT32);
      assertTrue(table.contains("chosen with windows: NVLS Simple"), table);
      table = comm.explain(Operation.ALL_REDUCE, 4, DataType.INT32);
      assertTrue(table.contains("chosen with windows: NVLS LL"), table);
      for (int round = 0; round < 60; round++) {
        int count = 1 + common.nextInt(round % 2 == 0 ? 40 : MOST);
        DataType type = TYPES.get(common.nextInt(TYPES.size()));
        RedOp op = List.of(RedOp.SUM, RedOp.MAX, RedOp.MIN, RedOp.AVG).get(common.nextInt(4));
        long at = 8L * common.nextInt(100);
        long bytes = (long) count * type.bytes();
        int kind = round % 3;
        int in = kind == 1 ? n : 1;
        int out = kind == 2 ? n : 1;
        byte[] data = new byte[(int) (in * bytes)];
        new Random(seed * 1000 + round * 10L + comm.rank()).nextBytes(data);
        // In place every other time.
        DeviceMemory base = common.nextBoolean() ? a : b;
        long sendAt = base == b && kind == 2 ? at + comm.rank() * bytes : at;
        long recvAt = base == b && kind == 1 ? at + comm.rank() * bytes : at;
        DeviceMemory send = base.slice(sendAt, in * bytes);
        DeviceMemory recv = b.slice(recvAt, out * bytes);
        plain.write(0, ByteBuffer.wrap(data));
        run(comm, stream, kind, plain, expected, count, type, op);
        send.write(0, ByteBuffer.wrap(data));
        run(comm, stream, kind, send, recv, count, type, op);
        assertArrayEquals(
            bytes(expected, out * bytes),
            bytes(recv, out * bytes),
            "round %d: %d of %s, %s, in place %s".formatted(round, kind, type, op, base == b));
      }
      comm.deregisterWindowOnAllRanks(sends);
      comm.deregisterWindowOnAllRanks(receives);
    }
  }

  private static void run(
      Communicator comm,
      DeviceStream stream,
      int kind,
      DeviceMemory send,
      DeviceMemory recv,
      int count,
      DataType type,
      RedOp op) {
    switch (kind) {
      case 0 -> comm.allReduce(send, recv, count, type, op, stream);
      case 1 -> comm.reduceScatter(send, recv, count, type, op, stream);
      default -> comm.allGather(send, recv, count, type, stream);
    }
    stream.synchronize();
  }

  private static byte[] bytes(DeviceMemory memory, long bytes) {
    ByteBuffer data = ByteBuffer.allocate((int) bytes);
    memory.slice(0, bytes).read(0, data);
    return data.array();
  }

  /** Small data, in any memory, once there are windows: by lines, and with every operator. */
  @ParameterizedTest
  @ValueSource(ints = {2, 3, 5})
  void smallDataGoInLines(int n) throws Exception {
    try (Ranks ranks = new Ranks(n, NVLS.with("NCCL_PROTO", "LL"))) {
      ranks.run(NvlsWindowTest::lines);
    }
  }

  private static void lines(Communicator comm, DeviceStream stream) {
    int n = comm.nRanks();
    int most = 256;
    try (DeviceMemory some = Devices.host().memAlloc(4096);
        DeviceMemory send = Devices.host().allocate(4L * most);
        DeviceMemory recv = Devices.host().allocate(4L * most * n)) {
      Window window = comm.registerWindow(some);
      String table = comm.explain(Operation.ALL_REDUCE, most, DataType.FLOAT32);
      assertTrue(table.contains("chosen with windows: NVLS LL"), table);
      table = comm.explain(Operation.ALL_REDUCE, most + 1, DataType.FLOAT32);
      assertTrue(table.contains("chosen with windows: as without"), table);
      for (int round = 0; round < 40; round++) {
        int count = 1 + 31 * round % most;
        FloatBuffer data = floats(send);
        for (int i = 0; i < count; i++) {
          data.put(i, n * (i + round + comm.rank()));
        }
        boolean mean = round % 2 == 0;
        RedOp op = mean ? RedOp.AVG : RedOp.SUM;
        comm.allReduce(send, recv, count, DataType.FLOAT32, op, stream);
        stream.synchronize();
        for (int i = 0; i < count; i++) {
          float sum = n * (n * (i + round) + n * (n - 1) / 2f);
          assertEquals(mean ? sum / n : sum, floats(recv).get(i), "round " + round);
        }
        comm.allGather(send, recv, count, DataType.FLOAT32, stream);
        stream.synchronize();
        for (int i = 0; i < n * count; i++) {
          assertEquals(n * (i % count + round + i / count), floats(recv).get(i));
        }
      }
      comm.deregisterWindowOnAllRanks(window);
    }
  }

  private static FloatBuffer floats(DeviceMemory memory) {
    return Devices.view(memory, 0, (int) memory.size()).asFloatBuffer();
  }

  /**
   * Means of floating-point numbers leave the operands alone, and do not overflow where a sum does:
   * every third element is as large as the type has it.
   */
  @ParameterizedTest
  @EnumSource(
      value = DataType.class,
      names = {"FLOAT16", "BFLOAT16", "FLOAT32", "FLOAT64"})
  void meansOfFloatsAreMadeInPlace(DataType type) throws Exception {
    try (Ranks ranks = new Ranks(4, NVLS)) {
      ranks.run((comm, stream) -> means(comm, stream, type));
    }
  }

  private static void means(Communicator comm, DeviceStream stream, DataType type) {
    int n = comm.nRanks();
    int count = 20_001; // several pieces, the last of an odd size
    long bytes = (long) count * type.bytes();
    FloatFormat format = FloatFormat.of(type);
    double most = largest(format);
    try (DeviceMemory a = Devices.host().memAlloc(n * bytes);
        DeviceMemory b = Devices.host().memAlloc(n * bytes)) {
      Window sends = comm.registerWindow(a);
      Window receives = comm.registerWindow(b);
      for (int i = 0; i < n * count; i++) {
        put(a, i, type, format.fromDouble(i % 3 == 0 ? most : i % 50 + 4 * comm.rank()));
      }
      put(a, 1, type, format.fromDouble(comm.rank() == 1 ? Double.POSITIVE_INFINITY : 1));
      put(a, 2, type, format.fromDouble(comm.rank() == 2 ? Double.NaN : 1));
      byte[] operands = bytes(a, n * bytes);
      for (boolean scatter : new boolean[] {false, true}) {
        int skip = scatter ? comm.rank() * count : 0;
        run(comm, stream, scatter ? 1 : 0, a, b, count, type, RedOp.AVG);
        for (int i = 0; i < count; i++) {
          int of = skip + i;
          double expected = of % 3 == 0 ? most : of % 50 + 4 * (n - 1) / 2.0;
          expected = of == 1 ? Double.POSITIVE_INFINITY : of == 2 ? Double.NaN : expected;
          assertEquals(expected, format.toDouble(get(b, i, type)), type + " " + of);
        }
        assertArrayEquals(operands, bytes(a, n * bytes));
      }
      run(comm, stream, 0, a, a, count, type, RedOp.AVG);
      assertEquals(most, format.toDouble(get(a, count - 3, type)), "into the operands");
      comm.deregisterWindowOnAllRanks(sends);
      comm.deregisterWindowOnAllRanks(receives);
    }
  }

  /** The greatest finite number: the one below infinity. */
  private static double largest(FloatFormat format) {
    return format.toDouble(format.fromDouble(Double.POSITIVE_INFINITY) - 1);
  }

  private static void put(DeviceMemory memory, int which, DataType type, long bits) {
    ByteBuffer element = ByteBuffer.allocate(8).order(ByteOrder.LITTLE_ENDIAN).putLong(0, bits);
    memory.write((long) which * type.bytes(), element.limit(type.bytes()));
  }

  private static long get(DeviceMemory memory, int which, DataType type) {
    ByteBuffer element = ByteBuffer.allocate(8).order(ByteOrder.LITTLE_ENDIAN);
    memory.read((long) which * type.bytes(), element.limit(type.bytes()));
    return element.clear().getLong(0);
  }

  /** By default the cheapest algorithm is chosen, which the emulation is not. */
  @Test
  void emulatedItIsNotTheCheapestWay() throws Exception {
    try (Ranks ranks =
        new Ranks(2, CommunicatorConfig.defaults().withNvlsMode(NvlsMode.EMULATED))) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory a = Devices.host().memAlloc(4096)) {
              Window window = comm.registerWindow(a);
              for (int count : new int[] {1, 30, 1000, 1 << 20}) {
                String table = comm.explain(Operation.ALL_REDUCE, count, DataType.INT32);
                assertTrue(table.contains("with buffers in windows"), table);
                assertFalse(table.contains("chosen with windows: NVLS"), table);
              }
              comm.deregisterWindowOnAllRanks(window);
            }
          });
    }
  }
}
