package org.nccl4j.device.cuda.copy;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

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
import org.nccl4j.device.NcclException;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.cuda.AgainstFakeCuda;
import org.nccl4j.device.cuda.CopyPair;
import org.nccl4j.device.cuda.driver.DriverLibrary;
import org.nccl4j.device.cuda.driver.KernelBuild;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;

/**
 * Copies in batches, and meetings by memory operations of streams, against the recording driver:
 * which of its functions are called, with what, and what happens when one is not there or fails.
 */
@Timeout(600)
class CopyEngineTest extends AgainstFakeCuda {
  private static final int BYTES = 100;
  private static final int OUT_OF_MEMORY = 2;
  private static final int ILLEGAL_ADDRESS = 700;

  @BeforeEach
  void assumeKernels() {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
  }

  private CopyPair pair() {
    return new CopyPair(Duration.ofSeconds(30), BYTES);
  }

  private long calls(String name) {
    return fake.fakeRecord().lines().filter(line -> line.startsWith(name + "(")).count();
  }

  @ParameterizedTest
  @EnumSource(names = {"COPY_ENGINE", "COPY_ENGINE_BATCH", "COPY_ENGINE_STREAM"})
  void everyOperationMovesWhatItShould(Algorithm way) {
    try (CopyPair pair = pair()) {
      if (way != Algorithm.COPY_ENGINE) { // where a kernel does its share
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

  @Test
  void allCopiesOfARankAreOneCall() {
    try (CopyPair pair = pair()) {
      fake.fakeReset();
      pair.launch(0, Operation.ALL_TO_ALL, Algorithm.COPY_ENGINE_BATCH);
      String stream = Long.toHexString(pair.ranks.streams.get(0).handle());
      assertTrue(
          fake.fakeRecord().contains("cuMemcpyBatchAsync_v2(2,100,1,1,0,1,%s)".formatted(stream)),
          fake.fakeRecord());
      assertEquals(0, calls("cuMemcpyAsync"));
      assertEquals(2, calls("cuLaunchKernelEx"), "the ranks meet before and after");
      pair.launch(1, Operation.ALL_TO_ALL, Algorithm.COPY_ENGINE_BATCH);
    }
  }

  @Test
  void whoHasNothingToCopyGivesNoBatch() {
    try (CopyPair pair = pair()) {
      fake.fakeReset();
      pair.launch(0, Operation.BROADCAST, Algorithm.COPY_ENGINE_BATCH);
      assertEquals(0, calls("cuMemcpyBatchAsync_v2"));
      pair.launch(1, Operation.BROADCAST, Algorithm.COPY_ENGINE_BATCH);
      assertEquals(1, calls("cuMemcpyBatchAsync_v2"));
    }
  }

  @Test
  void olderDriversGetTheirOwnCallOrCopiesOneByOne() {
    try (CopyPair pair = pair()) {
      fake.fakeReset();
      fake.fakeVersion(12080);
      pair.launch(Operation.ALL_GATHER, Algorithm.COPY_ENGINE_BATCH);
      assertEquals(2, calls("cuMemcpyBatchAsync"));
      assertEquals(0, calls("cuMemcpyBatchAsync_v2"));
      assertTrue(DriverLibrary.batchAbsence().isEmpty());
      fake.fakeReset();
      fake.fakeVersion(12020);
      pair.launch(Operation.ALL_GATHER, Algorithm.COPY_ENGINE_BATCH);
      assertEquals(0, calls("cuMemcpyBatchAsync"));
      assertEquals(4, calls("cuMemcpyAsync"));
      assertEquals(List.of(10, 20), pair.parts(0));
      assertEquals(
          "the driver is for CUDA 12.2, and copies in batches need 12.8",
          DriverLibrary.batchAbsence().orElseThrow());
    }
  }

  /** A graph cannot hold a batch, nor a word that is another at each launch. */
  @ParameterizedTest
  @EnumSource(names = {"COPY_ENGINE_BATCH", "COPY_ENGINE_STREAM"})
  void whileCapturedCopiesGoOneByOneBetweenKernels(Algorithm way) {
    try (CopyPair pair = pair()) {
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
    try (CopyPair pair = pair()) {
      fake.fakeFail("cuMemcpyBatchAsync_v2", OUT_OF_MEMORY);
      var error =
          assertThrows(
              CudaException.class,
              () -> pair.launch(0, Operation.ALL_GATHER, Algorithm.COPY_ENGINE_BATCH));
      assertTrue(
          error.problem().startsWith("cuMemcpyBatchAsync for CUDA device 0"), error.problem());
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {64, 32})
  void streamsMeetByStoringAndAwaitingANumber(int bits) {
    try (CopyPair pair = pair()) {
      fake.fakeReset();
      fake.fakeWideOperations(bits == 64 ? 1 : 0);
      pair.launch(0, Operation.ALL_GATHER, Algorithm.COPY_ENGINE_STREAM);
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
      pair.launch(1, Operation.ALL_GATHER, Algorithm.COPY_ENGINE_STREAM);
      assertEquals(0, fake.fakeWaiting(), "both have met twice");
    }
  }

  @Test
  void aRankThatDoesNotComeIsNamedWhenTheDeadlineHasPassed() {
    try (CopyPair pair = new CopyPair(Duration.ofMillis(20), BYTES)) {
      pair.launch(0, Operation.ALL_GATHER, Algorithm.COPY_ENGINE_STREAM);
      var waiting = pair.ranks.communicators().get(0);
      NcclException failure = waiting.failure();
      while (failure == null) {
        Thread.onSpinWait();
        failure = waiting.failure();
      }
      assertEquals(
          "rank 0 of test waited longer than 20 ms for rank 1 to come to a copy (meeting 1)",
          failure.problem());
      assertEquals(0, fake.fakeWaiting(), "the stream goes on");
      assertThrows(
          NcclException.class,
          () -> pair.launch(0, Operation.ALL_GATHER, Algorithm.COPY_ENGINE_STREAM));
      assertNull(pair.ranks.communicators().get(1).failure());
    }
  }

  @Test
  void anAbortEndsWhatStreamsWaitFor() {
    try (CopyPair pair = pair()) {
      pair.launch(0, Operation.ALL_GATHER, Algorithm.COPY_ENGINE_STREAM);
      assertTrue(fake.fakeWaiting() > 0);
      pair.ranks
          .communicators()
          .get(0)
          .abort(new SystemErrorException("another rank is gone", "look at its log"));
      assertEquals(0, fake.fakeWaiting());
    }
  }

  @Test
  void anAbortInALostContextThrowsNothing() {
    try (CopyPair pair = pair()) {
      pair.launch(0, Operation.ALL_GATHER, Algorithm.COPY_ENGINE_STREAM);
      KernelCommunicator aborted = pair.ranks.communicators().get(0);
      NcclException cause = new SystemErrorException("another rank is gone", "look at its log");
      fake.fakeFail("cuStreamWriteValue64_v2", ILLEGAL_ADDRESS);
      aborted.abort(cause);
      assertSame(cause, aborted.failure());
      fake.fakeReset();
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"cuStreamWriteValue64_v2", "cuStreamWaitValue64_v2"})
  void aMemoryOperationThatFailsIsNamed(String call) {
    try (CopyPair pair = pair()) {
      fake.fakeFail(call, OUT_OF_MEMORY);
      var error =
          assertThrows(
              CudaException.class,
              () -> pair.launch(0, Operation.ALL_GATHER, Algorithm.COPY_ENGINE_STREAM));
      assertTrue(error.problem().startsWith(call.replace("_v2", "")), error.problem());
    }
  }
}
