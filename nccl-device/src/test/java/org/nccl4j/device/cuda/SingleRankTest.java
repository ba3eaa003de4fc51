package org.nccl4j.device.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.time.Duration;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ReductionOperator;
import org.nccl4j.device.cuda.driver.KernelBuild;
import org.nccl4j.device.kernel.KernelPlan;

/** Launches of a communicator of one rank, against the recording driver. */
class SingleRankTest extends AgainstFakeCuda {
  @Test
  void aCollectiveInPlaceLaunchesNothing() {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    try (GpuRanks one = new GpuRanks(1, Duration.ofSeconds(3));
        DeviceMemory data = one.devices.get(0).allocate(4000);
        DeviceMemory other = one.devices.get(0).allocate(4000)) {
      CudaKernelCommunicator alone = one.communicators.get(0);
      KernelPlan plan = alone.prepare(WORK);
      assertEquals(0, launches(one, plan, data, data));
      assertEquals(1, launches(one, plan, data, other));
    }
  }

  @Test
  void aProductInPlaceIsLaunched() {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    try (GpuRanks one = new GpuRanks(1, Duration.ofSeconds(3));
        DeviceMemory data = one.devices.get(0).allocate(4000)) {
      KernelPlan plan =
          one.communicators.get(0).prepare(WORK, ReductionOperator.preMulSum(DataType.FLOAT32, 2));
      assertEquals(1, launches(one, plan, data, data));
    }
  }

  /** The stream's end is to mean that the operation before it in another stream has ended. */
  @Test
  void aCollectiveInPlaceFollowsTheLaunchInAnotherStream() {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    try (GpuRanks one = new GpuRanks(1, Duration.ofSeconds(3));
        DeviceMemory data = one.devices.get(0).allocate(4000);
        DeviceMemory other = one.devices.get(0).allocate(4000);
        DeviceStream second = one.devices.get(0).createStream()) {
      CudaKernelCommunicator alone = one.communicators.get(0);
      KernelPlan plan = alone.prepare(WORK);
      alone.launch(plan, data, other, one.streams.get(0));
      fake.fakeReset();
      alone.launch(plan, data, data, second);
      String calls = fake.fakeRecord();
      assertTrue(calls.contains("cuStreamWaitEvent"), calls);
      assertEquals(-1, calls.indexOf("cuLaunchKernelEx"), calls);
      fake.fakeReset();
      alone.launch(plan, data, data, second);
      assertEquals(-1, fake.fakeRecord().indexOf("cuStreamWaitEvent"), fake.fakeRecord());
    }
  }

  private int launches(GpuRanks one, KernelPlan plan, DeviceMemory send, DeviceMemory recv) {
    fake.fakeReset();
    one.communicators.get(0).launch(plan, send, recv, one.streams.get(0));
    return fake.fakeRecord().split("cuLaunchKernelEx", -1).length - 1;
  }
}
