package org.nccl4j.device.cuda.copy;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.device.CudaException;
import org.nccl4j.device.DataType;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.cuda.AgainstFakeCuda;
import org.nccl4j.device.cuda.CopyPair;
import org.nccl4j.device.cuda.CudaStream;
import org.nccl4j.device.cuda.driver.KernelBuild;
import org.nccl4j.device.kernel.LaunchOptions;
import org.nccl4j.device.kernel.WindowWork;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;

/**
 * Large copies, which part a rank's streams or have a kernel beside them, against the recording
 * driver.
 */
@Timeout(600)
class CopyEngineOverlapTest extends AgainstFakeCuda {
  private static final Pattern MOVES = Pattern.compile("cuMemcpy|cuEventR|WaitEv|cuLaunch|Value");

  @BeforeEach
  void assumeKernels() {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
  }

  private List<String> movesAndMeetings() {
    return fake.fakeRecord().lines().filter(line -> MOVES.matcher(line).find()).toList();
  }

  private long calls(String name) {
    return fake.fakeRecord().lines().filter(line -> line.startsWith(name + "(")).count();
  }

  private static final int LARGE = 2 << 20;

  /** The own part of a large operation is copied in a stream of its own, between two meetings. */
  @ParameterizedTest
  @EnumSource(names = {"COPY_ENGINE_BATCH", "COPY_ENGINE_STREAM"})
  void theOwnPartIsCopiedBesideTheOthers(Algorithm way) {
    try (CopyPair pair = new CopyPair(Duration.ofSeconds(30), LARGE)) {
      fake.fakeReset();
      pair.launch(0, Operation.ALL_GATHER, way);
      String own = Long.toHexString(pair.ranks.streams.get(0).handle());
      List<String> calls = movesAndMeetings();
      int before = way == Algorithm.COPY_ENGINE_STREAM ? 4 : 1;
      assertEquals(2 * before + 6, calls.size(), calls.toString());
      assertTrue(calls.subList(0, before).stream().allMatch(CopyEngineOverlapTest::isMeeting));
      assertTrue(
          calls.subList(before + 6, calls.size()).stream()
              .allMatch(CopyEngineOverlapTest::isMeeting));
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
  @EnumSource(names = {"ALL_GATHER", "REDUCE_SCATTER", "ALL_REDUCE"})
  void betweenTwoRanksAKernelWorksBesideTheCopies(Operation operation) {
    try (CopyPair pair = new CopyPair(Duration.ofSeconds(30), LARGE)) {
      fake.fakeReset();
      pair.launch(0, operation, Algorithm.COPY_ENGINE);
      List<String> calls = movesAndMeetings();
      boolean tellsBoth = operation == Operation.REDUCE_SCATTER;
      assertEquals(tellsBoth ? 5 : 4, calls.size(), calls.toString());
      assertTrue(calls.get(0).startsWith("cuLaunchKernelEx("), calls.get(0));
      assertTrue(calls.get(1).startsWith("cuStreamWaitValue32"), calls.get(1));
      String beside = calls.get(1).replaceAll(".*\\((.*?),.*", "$1");
      int moved =
          switch (operation) {
            case ALL_REDUCE -> LARGE / 2 / 4 * 3;
            case REDUCE_SCATTER -> LARGE / 2;
            default -> LARGE / 8 * 5;
          };
      assertEquals("cuMemcpyAsync(%d,%s)".formatted(moved, beside), calls.get(2));
      for (String told : calls.subList(3, calls.size())) {
        assertTrue(told.startsWith("cuStreamWriteValue32"), told);
        assertTrue(told.contains("(" + beside + ","), told);
      }
    }
  }

  /** The word of sums may be of a launch so long ago that it compares as one ahead. */
  @ParameterizedTest
  @ValueSource(ints = {0, (1 << 25) - 1, (1 << 26) - 2})
  void sumsAreGivenOnceTheKernelHasToldOfThem(int launchesBefore) {
    try (CopyPair pair = new CopyPair(Duration.ofSeconds(30), LARGE)) {
      pair.ranks.setEngineLaunches(0, launchesBefore);
      int number = launchesBefore + 1;
      pair.windows.recv.get(0).fill((byte) 7);
      pair.windows.recv.get(1).fill((byte) 9);
      pair.launchGiving(0);
      assertEquals(9, pair.parts(1).get(0));
      pair.word(0, BesideWords.SUMMED, 64 * number);
      pair.word(0, BesideWords.GO, number);
      assertEquals(9, pair.parts(1).get(0));
      pair.word(0, BesideWords.SUMMED, 64 * number + 63);
      ByteBuffer got = ByteBuffer.allocateDirect(1);
      pair.windows.recv.get(1).read(0, got);
      assertEquals(7, got.get(0));
    }
  }

  /**
   * The stream that waits for the other rank shares no queue of the hardware with users' streams,
   * which are of ordinary priority, nor with those that end waits.
   */
  @Test
  void theStreamThatWaitsHasAPriorityOfItsOwn() {
    try (CopyPair pair = new CopyPair(Duration.ofSeconds(30), LARGE)) {
      fake.fakeReset();
      pair.launch(0, Operation.ALL_GATHER, Algorithm.COPY_ENGINE);
      List<String> made =
          fake.fakeRecord().lines().filter(call -> call.contains("WithPriority(")).toList();
      assertEquals(List.of("cuStreamCreateWithPriority(1,-4)"), made);
    }
  }

  /** Of one queue the other rank may need what is behind a wait. */
  @ParameterizedTest
  @CsvSource({
    "ALL_GATHER, 32 128 32",
    "ALL_TO_ALL, 32 128 32",
    "REDUCE_SCATTER, 32",
    "ALL_REDUCE, 64"
  })
  void whereStreamsShareOneQueueKernelsDoAll(Operation operation, String blocks) {
    LaunchOptions oneQueue = new LaunchOptions(0, false, true, Set.of());
    try (CopyPair pair = new CopyPair(Duration.ofSeconds(30), LARGE, oneQueue)) {
      fake.fakeReset();
      pair.launch(0, operation, Algorithm.COPY_ENGINE);
      assertEquals(
          blocks,
          movesAndMeetings().stream()
              .map(call -> call.replaceAll("cuLaunchKernelEx\\((\\d+),.*", "$1"))
              .collect(Collectors.joining(" ")));
    }
  }

  /** A broken context fails every call; what else there is is freed all the same. */
  @Test
  void aStreamThatFailsAtCloseLeavesNothingElseOpen() {
    try (CopyPair pair = new CopyPair(Duration.ofSeconds(30), LARGE)) {
      pair.launch(Operation.ALL_GATHER, Algorithm.COPY_ENGINE);
      var communicator = pair.ranks.communicators().get(0);
      fake.fakeFail("cuStreamSynchronize", 700);
      CudaException error = assertThrows(CudaException.class, communicator::close);
      assertEquals(700, error.result());
      assertEquals(0, pair.ranks.communicatorsOf(0));
      fake.fakeFail("", 0);
    }
  }

  private static boolean isMeeting(String call) {
    return call.startsWith("cuLaunchKernelEx") || call.contains("Value");
  }

  /** In place there is nothing to copy, and no stream is parted. */
  @Test
  void inPlaceNothingGoesBeside() {
    try (CopyPair pair = new CopyPair(Duration.ofSeconds(30), LARGE)) {
      fake.fakeReset();
      var communicator = pair.ranks.communicators().get(0);
      WindowWork work =
          new WindowWork(
              Operation.ALL_GATHER,
              Algorithm.COPY_ENGINE,
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

  /** Little that only moves data is moved in a graph by a kernel, between the halves of another. */
  @ParameterizedTest
  @EnumSource(names = {"ALL_GATHER", "ALL_TO_ALL"})
  void inAGraphAKernelOfMoreBlocksMovesBetweenTwoRanks(Operation operation) {
    try (CopyPair pair = new CopyPair(Duration.ofSeconds(30), LARGE)) {
      pair.launch(0, operation, Algorithm.COPY_ENGINE);
      CudaStream stream = pair.ranks.streams.get(0);
      fake.fakeReset();
      stream.beginCapture();
      pair.launch(0, operation, Algorithm.COPY_ENGINE);
      List<String> moves = movesAndMeetings().stream().map(c -> c.replaceAll(",.*", "")).toList();
      stream.endCapture().close();
      pair.launch(1, operation, Algorithm.COPY_ENGINE);
      String name = "cuLaunchKernelEx(";
      int first = moves.size() - 3; // an event of the capture's begin is before them
      assertEquals(List.of(name + 32, name + 128, name + 32), moves.subList(first, first + 3));
      assertFalse(moves.toString().contains("cuMemcpy"), moves.toString());
    }
  }

  /** In a graph the streams part and join too, and what is launched elsewhere is not drawn in. */
  @ParameterizedTest
  @EnumSource(names = {"COPY_ENGINE", "COPY_ENGINE_BATCH", "COPY_ENGINE_STREAM"})
  void largeCopiesCanBeCapturedBesideEagerOnes(Algorithm way) {
    try (CopyPair pair = new CopyPair(Duration.ofSeconds(30), LARGE);
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
}
