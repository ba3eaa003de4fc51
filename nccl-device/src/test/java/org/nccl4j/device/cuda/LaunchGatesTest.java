package org.nccl4j.device.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.Leases;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.cuda.driver.KernelBuild;
import org.nccl4j.device.cuda.driver.LaunchGate;
import org.nccl4j.device.cuda.driver.LaunchGates;
import org.nccl4j.device.kernel.KernelPlan;

/** Memory that is closed beside launches, against the recording driver. */
@Timeout(600)
class LaunchGatesTest extends AgainstFakeCuda {
  private static final int ROUNDS = 2_000;
  private static final int LOOKS = 100; // a launch takes some time

  @Test
  void memoryIsFreedAfterTheLaunchThatIsUnderWay() throws Exception {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    try (GpuRanks ranks = new GpuRanks(2, Duration.ofSeconds(3));
        DeviceMemory recv = ranks.devices.get(0).allocate(4000)) {
      CudaKernelCommunicator communicator = ranks.communicators.get(0);
      KernelPlan plan = communicator.prepare(WORK);
      DeviceMemory send = ranks.devices.get(0).allocate(4000);
      fake.fakeReset();
      communicator.launch(plan, new ClosedWhenRead(send), recv, ranks.streams.get(0));
      FakeCuda.awaitFrees();
      String record = fake.fakeRecord();
      int launched = record.indexOf("cuLaunchKernelEx");
      assertTrue(launched >= 0 && launched < record.indexOf("cuMemFree"), record);
      assertThrows(
          NcclException.class, () -> communicator.launch(plan, recv, send, ranks.streams.get(0)));
    }
  }

  @Test
  void memoryThatIsClosedBesideAnotherLaunchIsFreedAfterThat() throws Exception {
    CudaDevice device = CudaDevices.probe().list().get(0);
    LaunchGate gate = device.gpu().launchGates().add();
    DeviceMemory memory = device.allocate(64);
    gate.enter();
    memory.close();
    boolean early = fake.fakeRecord().contains("cuMemFree");
    gate.leave();
    gate.enter(); // another launch, which has seen that the memory is over
    FakeCuda.awaitFrees();
    gate.leave();
    device.gpu().launchGates().remove(gate);
    assertFalse(early, "freed under a launch");
    assertTrue(fake.fakeRecord().contains("cuMemFree"));
  }

  /** Frees after the launches under way, however long that takes. */
  private static final class Freeing extends Leases {
    private final LaunchGates gates;
    private final AtomicBoolean freed;

    Freeing(LaunchGates gates, AtomicBoolean freed) {
      this.gates = gates;
      this.freed = freed;
    }

    @Override
    protected void free() {
      gates.underWay().await();
      freed.set(true);
    }
  }

  /** One thread launches with what another closes: it is freed under no launch. */
  @Test
  void closeBesideLaunches() throws Exception {
    LaunchGates gates = new LaunchGates();
    LaunchGate gate = gates.add();
    ExecutorService threads = Executors.newFixedThreadPool(2);
    AtomicInteger wrong = new AtomicInteger();
    for (int round = 0; round < ROUNDS; round++) {
      AtomicBoolean freed = new AtomicBoolean();
      Leases memory = new Freeing(gates, freed);
      Callable<Void> launching =
          () -> {
            for (boolean open = true; open; ) {
              gate.enter();
              open = !memory.isOver();
              for (int look = 0; open && look < LOOKS; look++) {
                wrong.addAndGet(freed.get() ? 1 : 0);
              }
              gate.leave();
            }
            return null;
          };
      Callable<Void> closing =
          () -> {
            memory.close();
            return null;
          };
      for (Future<Void> one :
          threads.invokeAll(List.of(launching, closing), 60, TimeUnit.SECONDS)) {
        one.get();
      }
      assertTrue(freed.get());
    }
    threads.shutdown();
    assertEquals(0, wrong.get());
  }
}
