package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;
import java.util.function.IntUnaryOperator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;
import org.nccl4j.it.cli.Main;

/**
 * GPUs of two hosts whose sockets are reset in the middle of operations, again and again: their
 * proxies go on over other sockets, without a wrong byte. Needs a GPU, which both ranks share if
 * there is no other.
 */
@Tag("gpu")
@Timeout(600)
class FailoverGpuTest {
  private static final int RANKS = 2;
  private static final long PATIENCE_NANOS = 300_000_000_000L;
  private static final int PATIENCE_SECONDS = 300;

  /**
   * Ranks that share a GPU copy only while no kernel waits: a copy could wait behind one.
   *
   * @param resetsAfter bytes of a connection
   */
  @ParameterizedTest
  @CsvSource({
    "LL, 0, 500, 200, 20000",
    "Simple, 0, 3000000, 12, 1000000",
    "Simple, 2, 3000000, 12, 1000000",
  })
  void theProxiesGoOnOverOtherSockets(
      String protocol, int threads, int count, int times, int resetsAfter) throws Exception {
    CommunicatorConfig config =
        CommunicatorConfig.defaults()
            .withName("cut " + protocol + threads)
            .withNetName("FaultySocket")
            .with("NCCL4J_FAULTS", "resetsAfter=" + resetsAfter)
            .with("NCCL_SOCKET_NTHREADS", Integer.toString(threads))
            .with("NCCL_PROTO", protocol)
            .with("NCCL_MULTI_RANK_GPU_ENABLE", "1");
    CyclicBarrier together = new CyclicBarrier(RANKS);
    try (Ranks ranks = Ranks.onHosts("ab", Devices.cuda().list(), config)) {
      ranks.run(
          (comm, stream) -> {
            assertEquals(Map.of(1 - comm.rank(), "NET"), comm.transports());
            for (int time = 0; time < times; time++) {
              operate(comm, stream, count, time, together);
            }
          });
      assertReplaced();
    }
  }

  /** An all-reduce and an all-gather of numbers that each rank, element and time changes. */
  private static void operate(
      Communicator comm, DeviceStream stream, int count, int time, CyclicBarrier together)
      throws Exception {
    IntUnaryOperator first = i -> 31 * i + time;
    IntUnaryOperator second = i -> 17 * i - 5 * time;
    List<IntUnaryOperator> sent = List.of(first, second);
    try (DeviceMemory mine = comm.device().allocate(4L * count);
        DeviceMemory sum = comm.device().allocate(4L * count);
        DeviceMemory all = comm.device().allocate(4L * RANKS * count)) {
      mine.write(0, bytes(count, sent.get(comm.rank())));
      sum.fill((byte) 0x5a);
      all.fill((byte) 0x5a);
      together.await(PATIENCE_SECONDS, TimeUnit.SECONDS);
      comm.allReduce(mine, sum, count, DataType.INT32, RedOp.SUM, stream);
      comm.allGather(mine, all, count, DataType.INT32, stream);
      stream.synchronize();
      together.await(PATIENCE_SECONDS, TimeUnit.SECONDS);
      assertBytes(bytes(count, i -> first.applyAsInt(i) + second.applyAsInt(i)), sum);
      assertBytes(
          bytes(RANKS * count, i -> i < count ? first.applyAsInt(i) : second.applyAsInt(i - count)),
          all);
    }
  }

  private static ByteBuffer bytes(int count, IntUnaryOperator of) {
    ByteBuffer data = ByteBuffer.allocateDirect(4 * count).order(ByteOrder.nativeOrder());
    for (int i = 0; i < count; i++) {
      data.putInt(of.applyAsInt(i));
    }
    return data.flip();
  }

  private static void assertBytes(ByteBuffer expected, DeviceMemory memory) {
    ByteBuffer data = ByteBuffer.allocateDirect((int) memory.size());
    memory.read(0, data);
    byte[] got = new byte[expected.remaining()];
    byte[] wanted = new byte[expected.remaining()];
    data.flip().get(got);
    expected.get(wanted);
    assertArrayEquals(wanted, got);
  }

  /** The ranks publish soon after it that sockets were replaced. */
  private static void assertReplaced() {
    long end = System.nanoTime() + PATIENCE_NANOS;
    StringWriter said;
    do {
      said = new StringWriter();
      PrintWriter to = new PrintWriter(said, true);
      String pid = Long.toString(ProcessHandle.current().pid());
      assertEquals(0, Main.run(to, to, "diagnose", pid), said.toString());
    } while (!said.toString().contains("replaced") && System.nanoTime() - end < 0);
    assertTrue(said.toString().contains("replaced"), said.toString());
  }
}
