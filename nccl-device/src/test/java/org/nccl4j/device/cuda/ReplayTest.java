package org.nccl4j.device.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.device.cuda.driver.CudaLibrary;
import org.nccl4j.device.cuda.driver.CudaResult;
import org.nccl4j.device.cuda.driver.KernelBuild;
import org.nccl4j.device.cuda.plan.KernelLayout;

/** Launches of this library's graphs, as the communicators of their operations know of them. */
class ReplayTest extends AgainstFakeCuda {
  private GpuRanks ranks;
  private CudaKernelCommunicator communicator;
  private DeviceMemory buffer;
  private final List<CudaStream> streams = new ArrayList<>();

  @BeforeEach
  void makeRanks() {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    ranks = new GpuRanks(2, Duration.ofSeconds(3));
    communicator = ranks.communicators.get(0);
    buffer = ranks.devices.get(0).allocate(4000);
    for (int i = 0; i < 2; i++) {
      streams.add((CudaStream) ranks.devices.get(0).createStream());
    }
    fake.fakeReset();
  }

  @AfterEach
  void closeRanks() {
    if (ranks != null) {
      streams.forEach(CudaStream::close);
      buffer.close();
      ranks.close();
    }
  }

  private void launch(int stream) {
    communicator.launch(communicator.prepare(WORK), buffer, buffer, streams.get(stream));
  }

  /** A graph of one operation, captured from the first stream. */
  private CudaGraph graph() {
    streams.get(0).beginCapture();
    launch(0);
    return streams.get(0).endCapture();
  }

  private long calls(String begin) {
    return fake.fakeRecord().lines().filter(line -> line.startsWith(begin)).count();
  }

  @Test
  void aGraphIsRefusedAfterItsCommunicatorWasClosed() {
    try (CudaGraph graph = graph()) {
      graph.launch(streams.get(1));
      assertEquals(1, calls("cuGraphLaunch("));
      communicator.close();
      InvalidUsageException refusal =
          assertThrows(InvalidUsageException.class, () -> graph.launch(streams.get(0)));
      assertEquals(ErrorId.CLOSED, refusal.id());
      assertTrue(refusal.getMessage().contains("test"), refusal.getMessage());
      assertTrue(refusal.getMessage().contains("capture"), refusal.getMessage());
      assertEquals(1, calls("cuGraphLaunch("));
    }
  }

  /** A kernel has given up. */
  private void fail() {
    communicator.memory().control().putInt(KernelLayout.CONTROL_FAILED_PEER, 1);
    communicator.memory().control().putInt(KernelLayout.CONTROL_FAILED, 1);
  }

  @Test
  void theStreamOfAReplayReportsItsFailure() {
    try (CudaGraph graph = graph()) {
      graph.launch(streams.get(1));
      fail();
      assertThrows(TimeoutException.class, () -> streams.get(1).synchronize());
    }
  }

  /** Its kernels would end at once, without having done anything. */
  @Test
  void aGraphIsNotLaunchedAgainAfterAFailure() {
    try (CudaGraph graph = graph()) {
      fail();
      assertThrows(TimeoutException.class, () -> streams.get(0).synchronize());
      streams.get(0).synchronize();
      for (CudaStream stream : streams) {
        assertThrows(TimeoutException.class, () -> graph.launch(stream));
      }
      assertEquals(0, calls("cuGraphLaunch("));
    }
  }

  /** Close and suspend wait until it is idle. */
  @Test
  void aReplayInAnotherStreamIsWaitedFor() {
    try (CudaGraph graph = graph()) {
      streams.get(0).close();
      assertTrue(communicator.isIdle());
      graph.launch(streams.get(1));
      fake.fakeFail("cuEventQuery", CudaResult.NOT_READY);
      assertFalse(communicator.isIdle());
      fake.fakeFail("", 0);
      assertTrue(communicator.isIdle());
    }
  }

  @Test
  void aReplayBehindALaunchIntoAStreamOfTheUsersIsWaitedFor() {
    CudaDevice device = ranks.devices.get(0);
    long handle = device.gpu().context().get(() -> CudaLibrary.createStream(device));
    try (CudaGraph graph = graph();
        CudaStream users = device.wrapStream(handle)) {
      communicator.launch(communicator.prepare(WORK), buffer, buffer, users);
      graph.launch(streams.get(1));
      fake.fakeReset();
      assertTrue(communicator.isIdle());
      assertEquals(1, recordsInSecond());
    }
    CudaLibrary.destroyStream(handle, device);
  }

  private long recordsInSecond() {
    String stream = "," + Long.toHexString(streams.get(1).handle()) + ")";
    return fake.fakeRecord()
        .lines()
        .filter(line -> line.startsWith("cuEventRecord(") && line.endsWith(stream))
        .count();
  }

  /** The stream says that it is about to be captured, and records for who follows the replay. */
  @Test
  void aStreamThatIsCapturedAfterAReplayIsStillFollowed() {
    try (CudaGraph graph = graph()) {
      graph.launch(streams.get(1));
      streams.get(1).beginCapture();
      assertEquals(1, recordsInSecond());
      launch(0);
      assertEquals(
          1, calls("cuStreamWaitEvent(" + Long.toHexString(streams.get(0).handle()) + ","));
      streams.get(1).endCapture().close();
    }
  }

  /** By which it is known that a window is in use. */
  @Test
  void aCapturedLaunchHasNotEndedWhileItIsRepeated() {
    long number = communicator.nextLaunch();
    try (CudaGraph graph = graph()) {
      graph.launch(streams.get(0));
      assertTrue(communicator.hasEnded(number));
      graph.launch(streams.get(0));
      fake.fakeFail("cuEventQuery", CudaResult.NOT_READY);
      assertFalse(communicator.hasEnded(number));
      fake.fakeFail("", 0);
      assertTrue(communicator.hasEnded(number));
    }
  }
}
