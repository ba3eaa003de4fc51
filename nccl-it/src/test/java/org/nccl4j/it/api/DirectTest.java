package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.Arrays;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Window;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.TimeoutException;

/** Operations on windows give what they give without, wherever in their windows the buffers are. */
@Timeout(600)
class DirectTest {
  private static final int MOST = 40_000;

  private enum Op {
    ALL_REDUCE,
    BROADCAST,
    REDUCE,
    ALL_GATHER,
    REDUCE_SCATTER,
    ALL_TO_ALL,
    GATHER,
    SCATTER;

    int sends(int n) {
      return this == REDUCE_SCATTER || this == ALL_TO_ALL || this == SCATTER ? n : 1;
    }

    int receives(int n) {
      return this == ALL_GATHER || this == ALL_TO_ALL || this == GATHER ? n : 1;
    }
  }

  private record Call(Op op, DataType type, RedOp red, int root, int count) {
    void run(Communicator comm, DeviceMemory send, DeviceMemory recv, DeviceStream stream) {
      switch (op) {
        case ALL_REDUCE -> comm.allReduce(send, recv, count, type, red, stream);
        case BROADCAST -> comm.broadcast(send, recv, count, type, root, stream);
        case REDUCE -> comm.reduce(send, recv, count, type, red, root, stream);
        case ALL_GATHER -> comm.allGather(send, recv, count, type, stream);
        case REDUCE_SCATTER -> comm.reduceScatter(send, recv, count, type, red, stream);
        case ALL_TO_ALL -> comm.allToAll(send, recv, count, type, stream);
        case GATHER -> comm.gather(send, recv, count, type, root, stream);
        case SCATTER -> comm.scatter(send, recv, count, type, root, stream);
      }
      stream.synchronize();
    }
  }

  private static CommunicatorConfig forced(String algo) {
    return CommunicatorConfig.defaults()
        .with("NCCL_ALGO", algo)
        .withOperationTimeout(Duration.ofSeconds(60));
  }

  @ParameterizedTest
  @CsvSource({"1, DirectTwoShot", "2, DirectTwoShot", "3, DirectOneShot", "5, DirectTwoShot"})
  void asWithoutWindows(int n, String algo) throws Exception {
    long seed = 90 + n;
    try (Ranks ranks = new Ranks(n, forced(algo + ",DirectOneShot"))) {
      ranks.run(
          (comm, stream) -> {
            Random common = new Random(seed);
            Random own = new Random(seed * 100 + comm.rank());
            try (DeviceMemory a = Devices.host().memAlloc(MOST * n + 4096);
                DeviceMemory b = Devices.host().memAlloc(MOST * n + 4096);
                DeviceMemory c = Devices.host().allocate(MOST * n + 4096);
                DeviceMemory d = Devices.host().allocate(MOST * n + 4096)) {
              Window sends = comm.registerWindow(a);
              Window receives = comm.registerWindow(b.slice(24, b.size() - 24));
              for (int round = 0; round < 60; round++) {
                check(comm, stream, call(common, n, round), common, own, a, b, c, d);
              }
              comm.deregisterWindowOnAllRanks(sends);
              comm.deregisterWindowOnAllRanks(receives);
            }
          });
    }
  }

  /** Only its own rank knows that a call is in place; all ranks go the same way all the same. */
  @Test
  void inPlaceOnOneRankAlone() throws Exception {
    try (Ranks ranks = new Ranks(2, forced("DirectOneShot"))) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory in = Devices.host().memAlloc(4096);
                DeviceMemory out = Devices.host().allocate(4096)) {
              Window window = comm.registerWindow(in);
              in.write(0, ByteBuffer.allocate(4).put(0, (byte) (1 + comm.rank())));
              DeviceMemory to = comm.rank() == 0 ? in : out;
              comm.allReduce(in, to, 4, DataType.UINT8, RedOp.SUM, stream);
              stream.synchronize();
              ByteBuffer sum = ByteBuffer.allocate(4);
              to.slice(0, 4).read(0, sum);
              assertEquals(3, sum.get(0));
              comm.deregisterWindowOnAllRanks(window);
            }
          });
    }
  }

  /** Integers, or few enough small floats that every order of addition gives the same. */
  private static Call call(Random random, int n, int round) {
    DataType[] types = {DataType.INT32, DataType.UINT8, DataType.INT64, DataType.FLOAT32};
    DataType type = types[random.nextInt(types.length)];
    RedOp[] reds = {RedOp.SUM, RedOp.MAX, RedOp.MIN};
    int most = random.nextBoolean() ? 50 : MOST / type.bytes();
    return new Call(
        Op.values()[round % Op.values().length],
        type,
        reds[random.nextInt(3)],
        random.nextInt(n),
        1 + random.nextInt(most));
  }

  private static void check(
      Communicator comm,
      DeviceStream stream,
      Call call,
      Random common,
      Random own,
      DeviceMemory a,
      DeviceMemory b,
      DeviceMemory c,
      DeviceMemory d) {
    int n = comm.nRanks();
    long sendBytes = (long) call.count * call.type.bytes() * call.op.sends(n);
    long recvBytes = (long) call.count * call.type.bytes() * call.op.receives(n);
    long sendAt = common.nextInt(100) * 8L;
    long recvAt = 24 + common.nextInt(100) * 8L;
    DeviceMemory send = a.slice(sendAt, sendBytes);
    DeviceMemory recv = b.slice(recvAt, recvBytes);
    boolean inPlace = common.nextInt(3) == 0 && sendBytes == recvBytes && call.op != Op.ALL_TO_ALL;
    byte[] data = data(own, call.type, (int) sendBytes);
    if (inPlace) {
      send = recv;
    }
    byte[] poison = new byte[(int) recvBytes];
    Arrays.fill(poison, (byte) 0x5a);
    recv.write(0, ByteBuffer.wrap(poison));
    send.write(0, ByteBuffer.wrap(data));
    c.write(0, ByteBuffer.wrap(data));
    d.write(0, ByteBuffer.wrap(inPlace ? data : poison));
    call.run(comm, c.slice(0, sendBytes), d.slice(0, recvBytes), stream);
    call.run(comm, send, recv, stream);
    assertArrayEquals(bytes(d, recvBytes), bytes(recv, recvBytes), call + " in place " + inPlace);
    if (!inPlace) {
      assertArrayEquals(data, bytes(send, sendBytes), call + " left its input");
    }
  }

  private static byte[] data(Random random, DataType type, int bytes) {
    byte[] data = new byte[bytes];
    if (type == DataType.FLOAT32) {
      ByteBuffer floats = ByteBuffer.wrap(data).order(ByteOrder.nativeOrder());
      while (floats.hasRemaining()) {
        floats.putFloat(random.nextInt(1000));
      }
    } else {
      random.nextBytes(data);
    }
    return data;
  }

  private static byte[] bytes(DeviceMemory memory, long bytes) {
    ByteBuffer out = ByteBuffer.allocate((int) bytes);
    memory.read(0, out);
    return out.array();
  }

  @Test
  void averagesAreThose() throws Exception {
    int n = 3;
    try (Ranks ranks = new Ranks(n, forced("DirectTwoShot"))) {
      ranks.run(
          (comm, stream) -> {
            for (DataType type : new DataType[] {DataType.FLOAT32, DataType.INT32}) {
              try (DeviceMemory memory = Devices.host().memAlloc(4000)) {
                Window window = comm.registerWindow(memory);
                byte[] data = new byte[4000];
                ByteBuffer values = ByteBuffer.wrap(data).order(ByteOrder.nativeOrder());
                for (int i = 0; i < 1000; i++) {
                  int value = 3 * i + comm.rank() * 3;
                  if (type == DataType.INT32) {
                    values.putInt(value);
                  } else {
                    values.putFloat(value);
                  }
                }
                memory.write(0, ByteBuffer.wrap(data));
                comm.allReduce(memory, memory, 1000, type, RedOp.AVG, stream);
                stream.synchronize();
                ByteBuffer got =
                    ByteBuffer.wrap(bytes(memory, 4000)).order(ByteOrder.nativeOrder());
                for (int i = 0; i < 1000; i++) {
                  assertEquals(
                      3 * i + 3, type == DataType.INT32 ? got.getInt() : got.getFloat(), 1e-3);
                }
                comm.deregisterWindowOnAllRanks(window);
              }
            }
          });
    }
  }

  @Test
  void aBufferHalfOutsideItsWindowTakesThePlainWay() throws Exception {
    try (Ranks ranks = new Ranks(2, forced("DirectTwoShot"))) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory memory = Devices.host().memAlloc(8000)) {
              Window half = comm.registerWindow(memory.slice(0, 4000));
              DeviceMemory buffer = memory.slice(2000, 4000);
              ByteBuffer ones = ByteBuffer.allocate(4000).order(ByteOrder.nativeOrder());
              while (ones.hasRemaining()) {
                ones.putInt(comm.rank() + 1);
              }
              buffer.write(0, ones.flip());
              // A rank's other offset would be an error on the way of windows.
              comm.allReduce(buffer, buffer, 1000, DataType.INT32, RedOp.SUM, stream);
              stream.synchronize();
              assertEquals(
                  3, ByteBuffer.wrap(bytes(buffer, 4)).order(ByteOrder.nativeOrder()).getInt());
              comm.deregisterWindowOnAllRanks(half);
            }
          });
    }
  }

  @Test
  void buffersAtDifferentOffsetsAreAnErrorAndNotWrongData() throws Exception {
    try (Ranks ranks = new Ranks(2, forced("DirectTwoShot"))) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory memory = Devices.host().memAlloc(8000)) {
              comm.registerWindow(memory);
              DeviceMemory buffer = memory.slice(comm.rank() * 800L, 4000);
              comm.allReduce(buffer, buffer, 1000, DataType.INT32, RedOp.SUM, stream);
              NcclException e = assertThrows(NcclException.class, stream::synchronize);
              assertTrue(e instanceof InvalidUsageException, e.getMessage());
              assertTrue(e.getMessage().contains("offsets of their windows"), e.getMessage());
            }
          });
    }
  }

  @Test
  void aRankWithoutAWindowIsNamed() throws Exception {
    CommunicatorConfig soon = forced("DirectTwoShot").withOperationTimeout(Duration.ofMillis(300));
    try (Ranks ranks = new Ranks(2, soon)) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory memory = Devices.host().memAlloc(8000);
                DeviceMemory plain = Devices.host().allocate(8000)) {
              comm.registerWindow(memory);
              DeviceMemory buffer = comm.rank() == 0 ? memory : plain;
              comm.allReduce(buffer, buffer, 2000, DataType.INT32, RedOp.SUM, stream);
              NcclException e = assertThrows(NcclException.class, stream::synchronize);
              assertTrue(
                  e instanceof TimeoutException && e.getMessage().contains("of rank"),
                  e.getMessage());
            }
          });
    }
  }
}
