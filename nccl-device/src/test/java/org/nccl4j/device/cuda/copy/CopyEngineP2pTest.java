package org.nccl4j.device.cuda.copy;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.cuda.AgainstFakeCuda;
import org.nccl4j.device.cuda.GpuRanks;
import org.nccl4j.device.cuda.driver.KernelBuild;
import org.nccl4j.device.cuda.plan.CudaKernelPlan;
import org.nccl4j.device.kernel.P2pWork;
import org.nccl4j.device.kernel.P2pWork.Kind;
import org.nccl4j.operation.Protocol;

/** Sends and receives by copy engines, against the recording driver, which runs no kernels. */
@Timeout(600)
class CopyEngineP2pTest extends AgainstFakeCuda {
  private static final Pattern MOVES = Pattern.compile("cuMemcpyAsync|cuEventR|WaitEv|cuLaunch");
  private static final int HALF = 512 << 10;
  private static final ConnectionLayout LAYOUT =
      new ConnectionLayout(64 << 10, 64 * 3968, 2 * HALF / ConnectionLayout.STEPS);

  @BeforeEach
  void assumeKernels() {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
  }

  private static P2pWork work(Kind kind, DeviceMemory buffer, long bytes, boolean copies) {
    return new P2pWork(kind, 1, buffer, 3, bytes, Protocol.SIMPLE, null, copies);
  }

  private static void launch(GpuRanks ranks, int rank, List<P2pWork> works) {
    var communicator = ranks.communicators().get(rank);
    communicator.launch(communicator.prepare(works), null, null, ranks.streams.get(rank));
  }

  /** The streams' operations: k a kernel of one thread, K another, c a copy. */
  private String moves(GpuRanks ranks) {
    String own = Long.toHexString(ranks.streams.get(0).handle());
    List<String> streams = new ArrayList<>(List.of(own));
    return fake.fakeRecord()
        .lines()
        .filter(line -> MOVES.matcher(line).find())
        .map(line -> move(line, streams))
        .collect(Collectors.joining(" "));
  }

  private static String move(String call, List<String> streams) {
    String[] given = call.substring(call.indexOf('(') + 1, call.indexOf(')')).split(",");
    if (call.startsWith("cuLaunch")) {
      boolean one = given[0].equals("1") && given[3].equals("1");
      return (one ? "k" : "K") + place(given[7], streams);
    }
    if (call.startsWith("cuMemcpy")) {
      return "c" + given[0] + "@" + place(given[1], streams);
    }
    return call.startsWith("cuEventRecord")
        ? "r" + place(given[1], streams)
        : "w" + place(given[0], streams);
  }

  private static int place(String stream, List<String> streams) {
    if (!streams.contains(stream)) {
      streams.add(stream);
    }
    return streams.indexOf(stream);
  }

  @Test
  void piecesGoByTurnsBesideTheUsersStream() {
    long bytes = 2 * HALF + 5;
    try (GpuRanks ranks = new GpuRanks(2, Duration.ofSeconds(30), LAYOUT);
        DeviceMemory buffer = ranks.devices.get(0).allocate(bytes + 3)) {
      var works =
          List.of(work(Kind.SEND, buffer, bytes, true), work(Kind.RECV, buffer, bytes, true));
      launch(ranks, 0, works); // makes the streams
      fake.fakeReset();
      launch(ranks, 0, works);
      String half = "c" + HALF + "@";
      assertEquals(
          "r0 w1 r0 w2 k2 " // the receiver has come
              + ("k1 " + half + "1 k1 ") // the sender waits, copies, tells
              + ("k2 " + half + "2 k2 ")
              + (half + "1 k1 ") // the other half is free anyway
              + ("k2 " + half + "2 k2 ")
              + "k1 c5@1 k1 k2 c5@2 k2 k1 " // in the end both halves are to be empty
              + "r1 w0 r2 w0",
          moves(ranks));
    }
  }

  @Test
  void theRestGoesByAKernelAtTheSameTimeAndInOrder() {
    try (GpuRanks ranks = new GpuRanks(2, Duration.ofSeconds(30), LAYOUT);
        DeviceMemory buffer = ranks.devices.get(0).allocate(HALF + 3)) {
      var works =
          List.of(
              work(Kind.SEND, buffer, 100, true),
              work(Kind.RECV, buffer, HALF, false),
              work(Kind.SEND, buffer, 4000, false),
              work(Kind.SEND, buffer, 200, true));
      launch(ranks, 0, works);
      fake.fakeReset();
      launch(ranks, 0, works);
      assertEquals(
          "r0 w1 r0 w2 K0 k1 c100@1 k1 k1 r1 w0 r2 w0" // with what is received
              + " r0 w1 r0 w2 K0 r1 w0 r2 w0"
              + " r0 w1 r0 w2 k1 c200@1 k1 k1 r1 w0 r2 w0",
          moves(ranks));
    }
  }

  @Test
  void whatFitsTheHalvesArrives() {
    int bytes = 2 * HALF - 7;
    byte[] data = new byte[bytes];
    new Random(3).nextBytes(data);
    try (GpuRanks ranks = new GpuRanks(2, Duration.ofSeconds(30), LAYOUT);
        DeviceMemory from = ranks.devices.get(0).allocate(bytes + 3);
        DeviceMemory to = ranks.devices.get(1).allocate(bytes + 3)) {
      from.write(3, ByteBuffer.wrap(data));
      launch(ranks, 0, List.of(work(Kind.SEND, from, bytes, true)));
      launch(
          ranks, 1, List.of(new P2pWork(Kind.RECV, 0, to, 3, bytes, Protocol.SIMPLE, null, true)));
      ranks.synchronize();
      ByteBuffer got = ByteBuffer.allocate(bytes);
      to.read(3, got);
      assertEquals(-1, got.flip().mismatch(ByteBuffer.wrap(data)));
    }
  }

  @Test
  void whatAKernelDoesIsNotParted() {
    try (GpuRanks ranks = new GpuRanks(2, Duration.ofSeconds(30), LAYOUT);
        DeviceMemory buffer = ranks.devices.get(0).allocate(4096)) {
      var communicator = ranks.communicators().get(0);
      var itself = new P2pWork(Kind.SEND, 0, buffer, 0, 64, Protocol.SIMPLE, null, true);
      var too = new P2pWork(Kind.RECV, 0, buffer, 64, 64, Protocol.SIMPLE, null, true);
      assertTrue(
          communicator.prepare(List.of(itself, too, work(Kind.SEND, buffer, 0, true)))
              instanceof CudaKernelPlan);
    }
  }
}
