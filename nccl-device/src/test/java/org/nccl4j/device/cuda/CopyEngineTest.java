package org.nccl4j.device.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.List;
import java.util.regex.Pattern;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.device.CudaException;
import org.nccl4j.device.DataType;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.kernel.DirectWork;
import org.nccl4j.device.kernel.DirectWork.Operation;
import org.nccl4j.device.kernel.DirectWork.Way;

/**
 * Copies in batches, and meetings by memory operations of streams, against the recording driver:
 * which of its functions are called, with what, and what happens when one is not there or fails.
 */
@Timeout(120)
class CopyEngineTest extends AgainstFakeCuda {
  private static final int BYTES = 100;
  private static final int OUT_OF_MEMORY = 2;

  @BeforeEach
  void assumeKernels() {
    assumeTrue(
        CudaDevice.class.getResource("kernels/direct-copy.fatbin") != null, "built without nvcc");
  }

  /** Two ranks whose buffers hold their number, and after it for each rank one more. */
  private static final class Pair implements AutoCloseable {
    final GpuRanks ranks;
    final DirectRanks windows;
    final int bytes;

    Pair(Duration deadline, int bytes) {
      this.bytes = bytes;
      ranks = new GpuRanks(2, deadline);
      windows = new DirectRanks(ranks, Math.max(1 << 20, 2 * bytes));
      for (int rank = 0; rank < 2; rank++) {
        go(rank);
        for (int part = 0; part < 2; part++) {
          windows.send.get(rank).slice(part * bytes, bytes).fill((byte) (10 * (rank + 1) + part));
        }
      }
    }

    void launch(int rank, Operation operation, Way way) {
      var communicator = ranks.communicators.get(rank);
      DirectWork work =
          new DirectWork(
              operation,
              way,
              DataType.INT8,
              RedOp.SUM,
              1,
              bytes,
              way.needsSend(operation) ? windows.sends.get(rank) : null,
              way.needsRecv(operation) ? windows.recvs.get(rank) : null,
              0);
      communicator.launch(
          communicator.prepare(work),
          windows.send.get(rank),
          windows.recv.get(rank),
          ranks.streams.get(rank));
    }

    /** What kernels would write, which here none does: copies beside them may begin. */
    private void go(int rank) {
      ByteBuffer many = ByteBuffer.allocateDirect(4).order(ByteOrder.nativeOrder()).putInt(0, 1000);
      windows.resources.get(rank).write(DirectLayout.of(2).engine(), many);
      windows.resources.get(rank).read(0, ByteBuffer.allocateDirect(4)); // it has arrived
    }

    void launch(Operation operation, Way way) {
      launch(0, operation, way);
      launch(1, operation, way);
    }

    /** What a rank has in the two parts of its receive buffer. */
    List<Integer> parts(int rank) {
      ByteBuffer got = ByteBuffer.allocateDirect(2 * bytes);
      windows.recv.get(rank).read(0, got);
      assertEquals(got.get(0), got.get(bytes - 1));
      assertEquals(got.get(bytes), got.get(2 * bytes - 1));
      return List.of((int) got.get(0), (int) got.get(bytes));
    }

    @Override
    public void close() {
      windows.close();
      ranks.close();
    }
  }

  private Pair pair() {
    return new Pair(Duration.ofSeconds(30), BYTES);
  }

  private long calls(String name) {
    return fake.fakeRecord().lines().filter(line -> line.startsWith(name + "(")).count();
  }

  @ParameterizedTest
  @EnumSource(names = {"COPY", "COPY_BATCH", "COPY_STREAM"})
  void everyOperationMovesWhatItShould(Way way) {
    try (Pair pair = pair()) {
      if (way != Way.COPY) { // where a kernel does its share
        pair.launch(Operation.ALL_GATHER, way);
        assertEquals(List.of(10, 20), pair.parts(0));
        assertEquals(List.of(10, 20), pair.parts(1));
        pair.launch(Operation.ALL_TO_ALL, way);
        assertEquals(List.of(10, 20), pair.parts(0));
        assertEquals(List.of(11, 21), pair.parts(1));
      }
      pair.launch(Operation.BROADCAST, way);
      assertEquals(20, pair.parts(0).get(0));
      assertEquals(20, pair.parts(1).get(0));
      pair.launch(Operation.SCATTER, way);
      assertEquals(20, pair.parts(0).get(0));
      assertEquals(21, pair.parts(1).get(0));
      pair.launch(Operation.GATHER, way);
      assertEquals(List.of(10, 20), pair.parts(1));
    }
  }

  private static final int LARGE = 2 << 20;

  /** The own part of a large operation is copied in a stream of its own, between two meetings. */
  @ParameterizedTest
  @EnumSource(names = {"COPY_BATCH", "COPY_STREAM"})
  void theOwnPartIsCopiedBesideTheOthers(Way way) {
    try (Pair pair = new Pair(Duration.ofSeconds(30), LARGE)) {
      fake.fakeReset();
      pair.launch(0, Operation.ALL_GATHER, way);
      String own = Long.toHexString(pair.ranks.streams.get(0).handle());
      List<String> calls =
          fake.fakeRecord()
              .lines()
              .filter(
                  line ->
                      Pattern.compile("cuMemcpy|cuEventR|WaitEv|cuLaunch|Value")
                          .matcher(line)
                          .find())
              .toList();
      int before = way == Way.COPY_STREAM ? 4 : 1;
      assertEquals(2 * before + 6, calls.size(), calls.toString());
      assertTrue(calls.subList(0, before).stream().allMatch(CopyEngineTest::isMeeting));
      assertTrue(
          calls.subList(before + 6, calls.size()).stream().allMatch(CopyEngineTest::isMeeting));
      calls = calls.subList(before, before + 6);
      assertTrue(calls.get(0).startsWith("cuEventRecord(") && calls.get(0).contains("," + own));
      assertTrue(calls.get(1).startsWith("cuStreamWaitEvent("), calls.get(1));
      String beside = calls.get(1).replaceAll(".*\\((.*?),.*", "$1");
      assertEquals("cuMemcpyAsync(%d,%s)".formatted(LARGE, beside), calls.get(2));
      assertTrue(calls.get(3).contains("," + own), calls.get(3));
      assertTrue(calls.get(4).startsWith("cuEventRecord(") && calls.get(4).contains("," + beside));
      assertTrue(calls.get(5).startsWith("cuStreamWaitEvent(" + own), calls.get(5));
      pair.launch(1, Operation.ALL_GATHER, way);
      assertEquals(List.of(10, 20), pair.parts(0));
      assertEquals(List.of(10, 20), pair.parts(1));
    }
  }

  /** The copies wait in a stream of their own for the kernel, and say when they have ended. */
  @ParameterizedTest
  @EnumSource(names = {"ALL_GATHER", "ALL_REDUCE"})
  void betweenTwoRanksAKernelWorksBesideTheCopies(Operation operation) {
    try (Pair pair = new Pair(Duration.ofSeconds(30), LARGE)) {
      fake.fakeReset();
      pair.launch(0, operation, Way.COPY);
      List<String> calls =
          fake.fakeRecord()
              .lines()
              .filter(
                  line ->
                      Pattern.compile("cuMemcpy|cuEventR|WaitEv|cuLaunch|Value")
                          .matcher(line)
                          .find())
              .toList();
      boolean reduces = operation == Operation.ALL_REDUCE;
      assertEquals(reduces ? 4 : 5, calls.size(), calls.toString());
      assertTrue(calls.get(0).startsWith("cuLaunchKernelEx("), calls.get(0));
      assertTrue(calls.get(1).startsWith("cuStreamWaitValue32"), calls.get(1));
      String beside = calls.get(1).replaceAll(".*\\((.*?),.*", "$1");
      int moved = (reduces ? LARGE / 2 : LARGE) / 4 * 3;
      assertEquals("cuMemcpyAsync(%d,%s)".formatted(moved, beside), calls.get(2));
      for (String told : calls.subList(3, calls.size())) {
        assertTrue(told.startsWith("cuStreamWriteValue32"), told);
        assertTrue(told.contains("(" + beside + ","), told);
      }
    }
  }

  private static boolean isMeeting(String call) {
    return call.startsWith("cuLaunchKernelEx") || call.contains("Value");
  }

  /** In place there is nothing to copy, and no stream is parted. */
  @Test
  void inPlaceNothingGoesBeside() {
    try (Pair pair = new Pair(Duration.ofSeconds(30), LARGE)) {
      fake.fakeReset();
      var communicator = pair.ranks.communicators.get(0);
      DirectWork work =
          new DirectWork(
              Operation.ALL_GATHER,
              Way.COPY,
              DataType.INT8,
              RedOp.SUM,
              0,
              LARGE,
              null,
              pair.windows.recvs.get(0),
              0);
      communicator.launch(
          communicator.prepare(work),
          pair.windows.recv.get(0).slice(0, LARGE),
          pair.windows.recv.get(0),
          pair.ranks.streams.get(0));
      assertEquals(1, calls("cuMemcpyAsync"));
      assertEquals(0, calls("cuEventRecord"));
    }
  }

  /** In a graph the streams part and join too, and what is launched elsewhere is not drawn in. */
  @ParameterizedTest
  @EnumSource(names = {"COPY", "COPY_BATCH", "COPY_STREAM"})
  void largeCopiesCanBeCapturedBesideEagerOnes(Way way) {
    try (Pair pair = new Pair(Duration.ofSeconds(30), LARGE);
        CudaStream other = (CudaStream) pair.ranks.devices.get(0).createStream()) {
      pair.launch(Operation.ALL_GATHER, way);
      CudaStream stream = pair.ranks.streams.get(0);
      stream.beginCapture();
      pair.launch(0, Operation.ALL_GATHER, way);
      pair.launch(0, Operation.ALL_TO_ALL, way);
      pair.ranks.streams.set(0, other);
      pair.launch(0, Operation.ALL_GATHER, way);
      pair.ranks.streams.set(0, stream);
      pair.launch(0, Operation.ALL_GATHER, way);
      stream.endCapture().close();
      pair.launch(1, Operation.ALL_GATHER, way);
      assertFalse(fake.fakeRecord().contains("misuse"), fake.fakeRecord());
    }
  }

  @Test
  void allCopiesOfARankAreOneCall() {
    try (Pair pair = pair()) {
      fake.fakeReset();
      pair.launch(0, Operation.ALL_TO_ALL, Way.COPY_BATCH);
      String stream = Long.toHexString(pair.ranks.streams.get(0).handle());
      assertTrue(
          fake.fakeRecord().contains("cuMemcpyBatchAsync_v2(2,100,1,1,0,1,%s)".formatted(stream)),
          fake.fakeRecord());
      assertEquals(0, calls("cuMemcpyAsync"));
      assertEquals(2, calls("cuLaunchKernelEx"), "the ranks meet before and after");
      pair.launch(1, Operation.ALL_TO_ALL, Way.COPY_BATCH);
    }
  }

  @Test
  void whoHasNothingToCopyGivesNoBatch() {
    try (Pair pair = pair()) {
      fake.fakeReset();
      pair.launch(0, Operation.BROADCAST, Way.COPY_BATCH);
      assertEquals(0, calls("cuMemcpyBatchAsync_v2"));
      pair.launch(1, Operation.BROADCAST, Way.COPY_BATCH);
      assertEquals(1, calls("cuMemcpyBatchAsync_v2"));
    }
  }

  @Test
  void olderDriversGetTheirOwnCallOrCopiesOneByOne() {
    try (Pair pair = pair()) {
      fake.fakeReset();
      fake.fakeVersion(12080);
      pair.launch(Operation.ALL_GATHER, Way.COPY_BATCH);
      assertEquals(2, calls("cuMemcpyBatchAsync"));
      assertEquals(0, calls("cuMemcpyBatchAsync_v2"));
      assertTrue(DriverLibrary.batchAbsence().isEmpty());
      fake.fakeReset();
      fake.fakeVersion(12020);
      pair.launch(Operation.ALL_GATHER, Way.COPY_BATCH);
      assertEquals(0, calls("cuMemcpyBatchAsync"));
      assertEquals(4, calls("cuMemcpyAsync"));
      assertEquals(List.of(10, 20), pair.parts(0));
      assertEquals(
          "the driver is for CUDA 12.2, and copies in batches came with 12.8",
          DriverLibrary.batchAbsence().orElseThrow());
    }
  }

  /** A graph cannot hold a batch, nor a word that is another at each launch. */
  @ParameterizedTest
  @EnumSource(names = {"COPY_BATCH", "COPY_STREAM"})
  void whileCapturedCopiesGoOneByOneBetweenKernels(Way way) {
    try (Pair pair = pair()) {
      fake.fakeReset();
      fake.fakeCapturing(1);
      pair.launch(Operation.ALL_GATHER, way);
      assertEquals(0, calls("cuMemcpyBatchAsync_v2"));
      assertEquals(4, calls("cuMemcpyAsync"));
      assertEquals(4, calls("cuLaunchKernelEx"));
      assertFalse(fake.fakeRecord().contains("Value"), fake.fakeRecord());
    }
  }

  @Test
  void aBatchThatFailsIsNamed() {
    try (Pair pair = pair()) {
      fake.fakeFail("cuMemcpyBatchAsync_v2", OUT_OF_MEMORY);
      var error =
          assertThrows(
              CudaException.class, () -> pair.launch(0, Operation.ALL_GATHER, Way.COPY_BATCH));
      assertTrue(
          error.problem().startsWith("cuMemcpyBatchAsync for CUDA device 0"), error.problem());
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {64, 32})
  void streamsMeetByStoringAndAwaitingANumber(int bits) {
    try (Pair pair = pair()) {
      fake.fakeReset();
      fake.fakeWideOperations(bits == 64 ? 1 : 0);
      pair.launch(0, Operation.ALL_GATHER, Way.COPY_STREAM);
      String stream = Long.toHexString(pair.ranks.streams.get(0).handle());
      String meeting =
          """
          cuStreamWriteValue%1$d_v2(%2$s,%3$d,0)
          cuStreamWriteValue%1$d_v2(%2$s,%3$d,0)
          cuStreamWaitValue%1$d_v2(%2$s,%3$d,0)
          cuStreamWriteValue%1$d_v2(%2$s,%3$d,0)
          """;
      String expected =
          meeting.formatted(bits, stream, 1)
              + "cuMemcpyBatchAsync_v2(2,100,1,1,0,1,%s)\n".formatted(stream)
              + meeting.formatted(bits, stream, 2);
      String calls =
          fake.fakeRecord()
              .lines()
              .filter(line -> Pattern.compile("Value|Batch").matcher(line).find())
              .reduce("", (all, line) -> all + line + "\n");
      assertEquals(expected, calls);
      assertEquals(0, calls("cuLaunchKernelEx"));
      assertTrue(fake.fakeWaiting() > 0, "rank 1 has not come");
      pair.launch(1, Operation.ALL_GATHER, Way.COPY_STREAM);
      assertEquals(0, fake.fakeWaiting(), "both have met twice");
    }
  }

  @Test
  void aRankThatDoesNotComeIsNamedWhenTheDeadlineHasPassed() {
    try (Pair pair = new Pair(Duration.ofMillis(20), BYTES)) {
      pair.launch(0, Operation.ALL_GATHER, Way.COPY_STREAM);
      var waiting = pair.ranks.communicators.get(0);
      NcclException failure = waiting.failure();
      while (failure == null) {
        Thread.onSpinWait();
        failure = waiting.failure();
      }
      assertEquals(
          "rank 0 of test waited longer than PT0.02S for rank 1 to come to a copy (meeting 1)",
          failure.problem());
      assertEquals(0, fake.fakeWaiting(), "the stream goes on");
      assertThrows(
          NcclException.class, () -> pair.launch(0, Operation.ALL_GATHER, Way.COPY_STREAM));
      assertNull(pair.ranks.communicators.get(1).failure());
    }
  }

  @Test
  void anAbortEndsWhatStreamsWaitFor() {
    try (Pair pair = pair()) {
      pair.launch(0, Operation.ALL_GATHER, Way.COPY_STREAM);
      assertTrue(fake.fakeWaiting() > 0);
      pair.ranks
          .communicators
          .get(0)
          .abort(new SystemErrorException("another rank is gone", "look at its log"));
      assertEquals(0, fake.fakeWaiting());
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"cuStreamWriteValue64_v2", "cuStreamWaitValue64_v2"})
  void aMemoryOperationThatFailsIsNamed(String call) {
    try (Pair pair = pair()) {
      fake.fakeFail(call, OUT_OF_MEMORY);
      var error =
          assertThrows(
              CudaException.class, () -> pair.launch(0, Operation.ALL_GATHER, Way.COPY_STREAM));
      assertTrue(error.problem().startsWith(call.replace("_v2", "")), error.problem());
    }
  }
}
