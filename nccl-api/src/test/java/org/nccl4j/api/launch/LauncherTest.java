package org.nccl4j.api.launch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.FakeKernels;
import org.nccl4j.device.DataType;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.device.kernel.KernelPlan;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/** Waits of a call for another thread's launch. */
class LauncherTest {
  private static final Duration LONG = Duration.ofSeconds(60);

  private final FakeKernels kernels = new FakeKernels();

  @Test
  void aCallFailsAtItsDeadlineWhileAnotherThreadLaunches() {
    Launcher launcher = new Launcher(kernels, Duration.ofMillis(20));
    launcher.enter();
    TimeoutException late = assertThrows(TimeoutException.class, launcher::enter);
    assertTrue(
        late.getMessage().contains("has waited 20 ms while another thread"), late::getMessage);
    assertTrue(late.remedy().contains("NCCL4J_TIMEOUT"), late::remedy);
    launcher.leave();
    launcher.enter(); // the call that failed has not changed the order
    launcher.leave();
  }

  @Test
  void aCallWaitsForTheLaunchOfACommunicatorThatSharesItsConnections() {
    Launcher parent = new Launcher(kernels, LONG);
    Launcher child = new Launcher(kernels, Duration.ofMillis(20), parent);
    parent.enter();
    assertThrows(TimeoutException.class, child::enter);
    parent.leave();
    child.enter();
    child.leave();
  }

  @Test
  void aFailureEndsTheWait() throws Exception {
    Launcher launcher = new Launcher(kernels, LONG);
    launcher.enter();
    CompletableFuture<NcclException> waiting = failureOfEnter(launcher);
    kernels.abort(new InternalErrorException("rank 1 has failed", "look at rank 1"));
    assertTrue(waiting.get(300, TimeUnit.SECONDS).getMessage().contains("rank 1 has failed"));
  }

  @Test
  void aCloseEndsTheWait() throws Exception {
    Launcher launcher = new Launcher(kernels, LONG);
    launcher.enter();
    CompletableFuture<NcclException> waiting = failureOfEnter(launcher);
    launcher.close("c", Duration.ZERO);
    assertEquals(ErrorId.CLOSED, waiting.get(300, TimeUnit.SECONDS).id());
  }

  @Test
  void theBlocksOfTheLastLaunchAreKnown() {
    Launcher launcher = new Launcher(kernels, LONG);
    assertEquals(0, launcher.lastBlocks());
    launcher.launchCollective(plan(16), null, null, null, 0, 0);
    assertEquals(16, launcher.lastBlocks());
    launcher.launchOther(plan(8), null, null, null, 0, 0);
    assertEquals(8, launcher.lastBlocks());
  }

  private KernelPlan plan(int channels) {
    return kernels.prepare(
        new CollectiveWork(
            Operation.ALL_REDUCE,
            Algorithm.RING,
            Protocol.SIMPLE,
            DataType.FLOAT32,
            RedOp.SUM,
            0,
            1000,
            channels,
            1 << 20));
  }

  private static CompletableFuture<NcclException> failureOfEnter(Launcher launcher) {
    return CompletableFuture.supplyAsync(() -> assertThrows(NcclException.class, launcher::enter));
  }
}
