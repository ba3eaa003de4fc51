package org.nccl4j.device.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.CudaException;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.cuda.driver.KernelBuild;
import org.nccl4j.device.kernel.LaunchOptions;

/** Communicators of one GPU that are launched in one order, and others. */
class LaunchOrderTest extends AgainstFakeCuda {
  private GpuRanks ranks;
  private CudaDevice device;
  private DeviceMemory buffer;
  private final List<CudaStream> streams = new ArrayList<>();

  @BeforeEach
  void makeRanks() {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    ranks = new GpuRanks(2, Duration.ofSeconds(3));
    device = ranks.devices.get(1);
    buffer = device.allocate(4000);
    for (int i = 0; i < 2; i++) {
      streams.add((CudaStream) device.createStream());
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

  private CudaKernelCommunicator communicator(boolean ordered) {
    return CudaKernelCommunicator.create(
        device, ranks.spec.withLaunching(new LaunchOptions(0, ordered, false, Set.of())));
  }

  private void launch(CudaKernelCommunicator communicator, CudaStream stream) {
    communicator.launch(communicator.prepare(WORK), buffer, buffer, stream);
  }

  /** The launches since the last reset, and what orders them: launch 0 is one into stream 0. */
  private String order() {
    List<String> calls = new ArrayList<>();
    for (String line : fake.fakeRecord().split("\n")) {
      for (int i = 0; i < streams.size(); i++) {
        String stream = Long.toHexString(streams.get(i).handle());
        if (line.startsWith("cuLaunchKernelEx(") && line.contains("," + stream + ",")) {
          calls.add("launch " + i);
        } else if (line.startsWith("cuEventRecord(") && line.contains("," + stream + ")")) {
          calls.add("record " + i);
        } else if (line.startsWith("cuStreamWaitEvent(" + stream + ",")) {
          calls.add("wait " + i);
        }
      }
    }
    fake.fakeReset();
    return String.join(", ", calls);
  }

  @Test
  void eachLaunchWaitsForTheOneBeforeOfAnyCommunicator() {
    try (CudaKernelCommunicator one = communicator(true);
        CudaKernelCommunicator other = communicator(true)) {
      launch(one, streams.get(0));
      assertEquals("launch 0, record 0", order());
      launch(other, streams.get(1));
      assertEquals("wait 1, launch 1, record 1", order());
      launch(one, streams.get(0));
      assertEquals("wait 0, launch 0, record 0", order());
      launch(one, streams.get(0));
      assertEquals("launch 0, record 0", order(), "a stream is an order of its own");
    }
  }

  /** As where a program destroys a stream with work under way and makes the next. */
  @Test
  void aStreamThatGetsTheHandleOfADestroyedOneWaits() {
    long handle = streams.get(0).handle();
    try (CudaKernelCommunicator one = communicator(true)) {
      launch(one, device.wrapStream(handle));
      order();
      launch(one, device.wrapStream(handle));
      assertFalse(order().contains("wait"));
      fake.fakeRenew(handle);
      launch(one, device.wrapStream(handle));
      String order = order();
      // Of the communicator's connections, and of the order among communicators.
      assertTrue(order.startsWith("wait 0, wait 0, launch 0"), order);
    }
  }

  @Test
  void whoDoesNotAskForItIsNotInTheOrder() {
    try (CudaKernelCommunicator one = communicator(true);
        CudaKernelCommunicator other = communicator(false)) {
      launch(one, streams.get(0));
      launch(other, streams.get(1));
      launch(one, streams.get(0));
      assertEquals("launch 0, record 0, launch 1, launch 0, record 0", order());
    }
  }

  @Test
  void aCapturedLaunchWaitsForNothingOutside() {
    try (CudaKernelCommunicator one = communicator(true);
        CudaKernelCommunicator other = communicator(true)) {
      launch(one, streams.get(0));
      streams.get(1).beginCapture();
      launch(other, streams.get(1));
      streams.get(1).endCapture().close();
      assertEquals("launch 0, record 0, launch 1", order());
      launch(other, streams.get(1));
      assertEquals("wait 1, launch 1, record 1", order());
    }
  }

  @Test
  void aDeadlineOfOneAmongSeveralNamesTheOrder() {
    String setting = "NCCL_LAUNCH_ORDER_IMPLICIT=1";
    try (CudaKernelCommunicator one = communicator(false);
        CudaKernelCommunicator other = communicator(true)) {
      assertTrue(one.deadlineRemedy().contains(setting));
      assertFalse(other.deadlineRemedy().contains(setting));
    }
    ranks.communicators.get(1).close();
    try (CudaKernelCommunicator alone = communicator(false)) {
      assertFalse(alone.deadlineRemedy().contains(setting));
    }
  }

  /** Of its events the one for the order is the third. */
  @Test
  void whoCannotJoinTheOrderLeavesNothing() {
    long before = FakeCuda.live();
    fake.fakeFail("cuEventCreate", 3);
    assertThrows(CudaException.class, () -> communicator(true));
    fake.fakeReset();
    assertEquals(before, FakeCuda.live());
    communicator(true).close();
    assertEquals(before, FakeCuda.live());
  }
}
