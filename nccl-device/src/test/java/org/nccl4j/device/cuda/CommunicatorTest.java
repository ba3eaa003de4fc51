package org.nccl4j.device.cuda;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.device.CudaException;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.RemoteException;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.cuda.driver.KernelBuild;
import org.nccl4j.device.cuda.plan.CudaKernelPlan;
import org.nccl4j.device.cuda.plan.KernelLayout;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.device.kernel.KernelPlan;
import org.nccl4j.device.kernel.LaunchOptions;
import org.nccl4j.device.kernel.P2pWork;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/** Plans and launches against the recording driver. */
class CommunicatorTest extends AgainstFakeCuda {
  private static final int OTHER_CALL = 3; // kOtherCall

  private static CollectiveWork sum(Operation operation, Algorithm algorithm, Protocol protocol) {
    return new CollectiveWork(
        operation, algorithm, protocol, DataType.FLOAT32, RedOp.SUM, 0, 1000, 4, 1 << 20);
  }

  private static void assumeKernels() {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
  }

  @Test
  void aLaunchHasItsShapeItsDomainAndItsArguments() {
    assumeKernels();
    try (GpuRanks ranks = new GpuRanks(2, Duration.ofSeconds(3))) {
      DeviceMemory send = ranks.devices.get(0).allocate(4000);
      DeviceMemory recv = ranks.devices.get(0).allocate(4000);
      var communicator = ranks.communicators.get(0);
      CollectiveWork work =
          new CollectiveWork(
              Operation.ALL_REDUCE,
              Algorithm.ONE_SHOT,
              Protocol.LL,
              DataType.FLOAT64, // of no other test: modules stay loaded
              RedOp.SUM,
              0,
              500,
              4,
              1 << 20);
      KernelPlan plan = communicator.prepare(work);
      assertTrue(fake.fakeRecord().contains("cuModuleLoadData(fatbin)"), "the type's own fatbin");
      assertTrue(fake.fakeRecord().contains("cuModuleGetFunction(nccl4j_ll_one_shot)"));
      communicator.launch(plan, send, recv, ranks.streams.get(0));
      String stream = Long.toHexString(ranks.streams.get(0).handle());
      assertTrue(
          fake.fakeRecord().contains("cuLaunchKernelEx(4,1,1,128,1,1,0," + stream + ",10:1+6:1,0)"),
          fake.fakeRecord());
      Offheap arguments = new Offheap(112);
      fake.fakeArguments(arguments.address());
      assertEquals(send.address(), arguments.getLong(KernelLayout.SEND));
      assertEquals(recv.address(), arguments.getLong(KernelLayout.RECV));
      assertEquals(4000, arguments.getLong(KernelLayout.BYTES));
      assertEquals(3_000_000_000L, arguments.getLong(KernelLayout.BUDGET));
      assertEquals(4, arguments.getInt(KernelLayout.N_CHANNELS));
      assertEquals(work.signature(), arguments.getInt(KernelLayout.SIGNATURE));
      send.close();
      recv.close();
    }
  }

  /** The stream says in which order launches come; the driver is asked for the context as well. */
  @Test
  void aWarmLaunchIsOneCallOfTheDriver() {
    assumeKernels();
    try (GpuRanks ranks = new GpuRanks(2, Duration.ofSeconds(3));
        DeviceMemory buffer = ranks.devices.get(0).allocate(4000)) {
      ranks.devices.get(0).useOnThisThread();
      var communicator = ranks.communicators.get(0);
      KernelPlan plan = communicator.prepare(WORK);
      communicator.launch(plan, buffer, buffer, ranks.streams.get(0));
      fake.fakeReset();
      for (int n = 0; n < 3; n++) {
        communicator.launch(plan, buffer, buffer, ranks.streams.get(0));
      }
      List<String> calls =
          fake.fakeRecord().lines().map(line -> line.replaceFirst("\\(.*", "")).toList();
      assertEquals(Collections.nCopies(3, "cuLaunchKernelEx"), calls);
    }
  }

  private static void launchWork(GpuRanks ranks, int rank) {
    var communicator = ranks.communicators.get(rank);
    try (DeviceMemory buffer = ranks.devices.get(rank).allocate(4000)) {
      communicator.launch(communicator.prepare(WORK), buffer, buffer, ranks.streams.get(rank));
    }
  }

  /** In a context that a fault has ended nothing runs, and each call of the driver fails. */
  @Test
  void aLostContextIsAFailureToWhoeverMeetsIt() {
    assumeKernels();
    int fault = 700; // CUDA_ERROR_ILLEGAL_ADDRESS
    try (GpuRanks ranks = new GpuRanks(3, Duration.ofSeconds(3))) {
      for (int rank = 0; rank < ranks.n; rank++) {
        launchWork(ranks, rank);
      }
      fake.fakeFail("*", fault);
      assertTrue(ranks.communicators.get(0).isIdle());
      assertEquals(0, ranks.communicators.get(1).ended());
      fake.fakeFail("cuLaunchKernelEx", fault);
      assertThrows(CudaException.class, () -> launchWork(ranks, 2));
      fake.fakeReset();
      for (CudaKernelCommunicator each : ranks.communicators) {
        assertEquals(fault, ((CudaException) each.failure()).result());
      }
    }
  }

  @Test
  void anErrorThatEndsNoContextIsNoFailure() {
    assumeKernels();
    try (GpuRanks ranks = new GpuRanks(2, Duration.ofSeconds(3))) {
      var communicator = ranks.communicators.get(0);
      launchWork(ranks, 0);
      fake.fakeFail("cuEventRecord", 2); // CUDA_ERROR_OUT_OF_MEMORY
      assertThrows(CudaException.class, communicator::isIdle);
      assertThrows(CudaException.class, communicator::ended);
      fake.fakeReset();
      assertEquals(null, communicator.failure());
    }
  }

  /** A newer GPU runs what was compiled for an older one, which does not wait where it begins. */
  @Test
  void aKernelComesEarlyOnlyIfItsCodeWaitsForTheOneBefore() {
    assumeKernels();
    try (GpuRanks ranks = new GpuRanks(2, Duration.ofSeconds(3));
        DeviceMemory buffer = ranks.devices.get(0).allocate(8000)) {
      fake.fakeCompiledFor(80);
      var communicator = ranks.communicators.get(0);
      KernelPlan plan =
          communicator.prepare(
              new CollectiveWork(
                  Operation.ALL_REDUCE,
                  Algorithm.TREE, // of no other test of this type: functions stay loaded
                  Protocol.LL,
                  DataType.UINT64,
                  RedOp.SUM,
                  0,
                  500,
                  4,
                  1 << 20));
      communicator.launch(plan, buffer, buffer, ranks.streams.get(0));
      assertTrue(fake.fakeRecord().contains(",10:1,"), fake.fakeRecord());
    }
  }

  @Test
  void clustersHaveAsManyBlocksAsDivideTheGrid() {
    assertEquals(4, CudaKernelPlan.clusterBlocks(8, 4));
    assertEquals(3, CudaKernelPlan.clusterBlocks(9, 4));
    assertEquals(1, CudaKernelPlan.clusterBlocks(7, 4));
    assertEquals(1, CudaKernelPlan.clusterBlocks(8, 0));
  }

  /** So that those of four communicators find room, the running ones and the early. */
  @Test
  void smallKernelsLeaveRoomBesideEachOther() {
    assertTrue(new CudaKernelPlan.Shape(64, 256, 1).isSmall(132));
    assertTrue(new CudaKernelPlan.Shape(16, 512, 1).isSmall(132));
    assertTrue(new CudaKernelPlan.Shape(32, 512, 2).isSmall(132));
    assertFalse(new CudaKernelPlan.Shape(17, 512, 1).isSmall(132));
    assertFalse(new CudaKernelPlan.Shape(1, 32, 0).isSmall(132));
    assertTrue(new CudaKernelPlan.Shape(4, 512, 1).isSmall(16), "a MIG instance");
    assertFalse(new CudaKernelPlan.Shape(5, 512, 1).isSmall(16), "two kernels in half of it");
    assertFalse(new CudaKernelPlan.Shape(5, 64, 1).isSmall(16));
  }

  @Test
  void kernelsComeEarlyWhereAllHaveRoom() {
    assertTrue(new CudaKernelPlan.Shape(64, 512, 1).comesEarly(132));
    assertFalse(new CudaKernelPlan.Shape(64, 512, 1).comesEarly(114));
    assertTrue(new CudaKernelPlan.Shape(16, 512, 1).comesEarly(114));
    assertFalse(new CudaKernelPlan.Shape(64, 512, 0).comesEarly(132));
  }

  @Test
  void largeKernelsAdmitTheNextWhereTheyMeetTheOtherRanks() {
    int atOnce = KernelLayout.ADMITS_AT_ONCE;
    assertEquals(atOnce, new CudaKernelPlan.Shape(16, 512, 1, /* meets= */ true).admits(132));
    assertEquals(atOnce, new CudaKernelPlan.Shape(16, 512, 1).admits(132));
    assertEquals(
        KernelLayout.ADMITS_WHEN_MET,
        new CudaKernelPlan.Shape(17, 512, 1, /* meets= */ true).admits(132));
    assertEquals(0, new CudaKernelPlan.Shape(17, 512, 1).admits(132));
    assertEquals(0, new CudaKernelPlan.Shape(17, 512, 0, /* meets= */ true).admits(132));
  }

  @Test
  void aLaunchHasTheClustersThatWereAskedFor() {
    assumeKernels();
    try (GpuRanks ranks = new GpuRanks(2, Duration.ofSeconds(3));
        DeviceMemory buffer = ranks.devices.get(1).allocate(4000)) {
      CollectiveWork work = sum(Operation.ALL_REDUCE, Algorithm.RING, Protocol.SIMPLE);
      for (int blocks : new int[] {0, 2, 3, 8}) {
        CudaKernelCommunicator communicator =
            CudaKernelCommunicator.create(
                ranks.devices.get(1),
                ranks.spec.withLaunching(new LaunchOptions(blocks, false, false, Set.of())));
        fake.fakeReset();
        communicator.launch(communicator.prepare(work), buffer, buffer, ranks.streams.get(1));
        String shape = fake.fakeRecord();
        String expected =
            switch (blocks) {
              case 2, 3 -> "+4:2x1x1+6:1,";
              case 8 -> "+4:4x1x1+6:1,";
              default -> "10:1+6:1,";
            };
        assertTrue(shape.contains("cuLaunchKernelEx(4,"), shape);
        assertTrue(shape.contains("10:1") && shape.contains(expected), shape);
        communicator.close();
      }
    }
  }

  @Test
  void aChangeOfStreamsKeepsTheOrder() {
    assumeKernels();
    try (GpuRanks ranks = new GpuRanks(2, Duration.ofSeconds(3));
        CudaStream other = (CudaStream) ranks.devices.get(0).createStream()) {
      DeviceMemory buffer = ranks.devices.get(0).allocate(4000);
      var communicator = ranks.communicators.get(0);
      KernelPlan plan =
          communicator.prepare(sum(Operation.ALL_REDUCE, Algorithm.RING, Protocol.SIMPLE));
      communicator.launch(plan, buffer, buffer, ranks.streams.get(0));
      communicator.launch(plan, buffer, buffer, ranks.streams.get(0));
      assertEquals(-1, fake.fakeRecord().indexOf("cuEventRecord"));
      communicator.launch(plan, buffer, buffer, other);
      String record = fake.fakeRecord();
      int recorded = record.indexOf("cuEventRecord");
      int waited = record.indexOf("cuStreamWaitEvent");
      assertTrue(recorded > 0 && waited > recorded && record.lastIndexOf("cuLaunch") > waited);
      buffer.close();
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"cuMemAlloc_v2", "cuMemHostAlloc", "cuEventCreate"})
  void aCommunicatorThatCannotBeMadeLeavesNothing(String call) {
    try (GpuRanks ranks = new GpuRanks(2, Duration.ofSeconds(3))) {
      long before = FakeCuda.live();
      fake.fakeFail(call, 2);
      assertThrows(
          CudaException.class,
          () -> CudaKernelCommunicator.create(ranks.devices.get(0), ranks.spec));
      fake.fakeReset();
      assertEquals(before, FakeCuda.live());
    }
  }

  @Test
  void wrongArgumentsAreRefused() {
    assumeKernels();
    try (GpuRanks ranks = new GpuRanks(2, Duration.ofSeconds(3))) {
      var communicator = ranks.communicators.get(0);
      var foreign = ranks.communicators.get(1);
      CudaStream stream = ranks.streams.get(0);
      DeviceMemory small = ranks.devices.get(0).allocate(3999);
      KernelPlan plan =
          communicator.prepare(sum(Operation.ALL_REDUCE, Algorithm.TREE, Protocol.LL128));
      assertThrows(
          InvalidArgumentException.class, () -> communicator.launch(plan, small, small, stream));
      assertThrows(
          InvalidArgumentException.class, () -> communicator.launch(plan, null, null, stream));
      assertThrows(
          InvalidArgumentException.class, () -> foreign.launch(plan, small, small, stream));
      assertThrows(
          InvalidArgumentException.class,
          () -> communicator.prepare(sum(Operation.ALL_GATHER, Algorithm.TREE, Protocol.LL)));
      assertThrows(
          InvalidUsageException.class,
          () ->
              communicator.prepare(
                  List.of(new P2pWork(P2pWork.Kind.SEND, 0, small, 0, 8, Protocol.LL))));
      small.close();
    }
  }

  /** The driver may be what hangs, and a call that waits for the device would hang with it. */
  @Test
  void anAbortAsksNothingOfTheDriver() {
    try (GpuRanks ranks = new GpuRanks(2, Duration.ofSeconds(3))) {
      var communicator = ranks.communicators.get(0);
      fake.fakeReset();
      communicator.abort(new RemoteException("rank 1 is gone", "restart it"));
      assertEquals("rank 1 is gone", communicator.failure().problem());
      assertEquals("", fake.fakeRecord());
      communicator.close();
      String closing = fake.fakeRecord();
      assertEquals(
          "",
          closing.replaceAll("(cuMemFree_v2|cuMemFreeHost|cuEventDestroy_v2|cuCtx.*)\\(.*\n", ""));
      communicator.close();
      assertEquals(closing, fake.fakeRecord(), "closed once");
    }
  }

  @Test
  void aKernelThatGivesUpSaysWhomItWaitedForAndTheRecordersSayWhy() {
    try (GpuRanks ranks = new GpuRanks(2, Duration.ofSeconds(3))) {
      CudaKernelCommunicator communicator = ranks.communicators.get(0);
      // What explains looks at the communicator, as the observer does.
      communicator.explainDeadlines(
          () -> "rank %d is behind, %s".formatted(communicator.waitsFor(), communicator.failure()),
          () -> "");
      assertEquals(-1, communicator.waitsFor());
      communicator.memory().control().putInt(KernelLayout.CONTROL_FAILED_PEER, 1);
      communicator.memory().control().putInt(KernelLayout.CONTROL_FAILED, 1);
      String message = communicator.failure().getMessage();
      assertTrue(message.contains("for data of rank 1"), message);
      assertTrue(message.contains("; rank 1 is behind, null"), message);
      assertEquals(1, communicator.waitsFor());
    }
  }

  /** A communicator may close, and its memory be freed, while another thread explains. */
  @Test
  void theKindOfAFailureIsKnownBeforeItIsExplained() {
    try (GpuRanks ranks = new GpuRanks(2, Duration.ofSeconds(3))) {
      CudaKernelCommunicator communicator = ranks.communicators.get(0);
      ByteBuffer control = communicator.memory().control();
      communicator.explainDeadlines(
          () -> {
            control.putInt(KernelLayout.CONTROL_FAILED, 0); // as memory that is no longer its own
            return "rank 1 is behind";
          },
          () -> "");
      control.putInt(KernelLayout.CONTROL_FAILED_KIND, OTHER_CALL);
      control.putInt(KernelLayout.CONTROL_FAILED, 1);
      NcclException failure = communicator.failure();
      assertEquals(ErrorId.CALLS_DIFFER, failure.id(), failure.getMessage());
    }
  }

  /** Threads of a kernel that waits for long write for whom, again and again. */
  @Test
  void whomAKernelWaitsForIsKnownWhileItWaits() throws Exception {
    try (GpuRanks ranks = new GpuRanks(2, Duration.ofSeconds(3))) {
      CudaKernelCommunicator communicator = ranks.communicators.get(0);
      AtomicBoolean waits = new AtomicBoolean(true);
      Thread kernel =
          new Thread(
              () -> {
                for (long time = 1; waits.get(); time++) {
                  long word = time << 32 | 1 << 16;
                  communicator.memory().control().putLong(KernelLayout.CONTROL_WAITING, word);
                  Thread.onSpinWait();
                }
              });
      kernel.start();
      try {
        int awaited;
        do { // a thread that is off its core writes nothing for a while
          awaited = communicator.waitsFor();
        } while (awaited < 0);
        assertEquals(1, awaited);
      } finally {
        waits.set(false);
        kernel.join();
      }
      while (communicator.waitsFor() >= 0) {
        Thread.onSpinWait();
      }
      assertEquals(null, communicator.failure());
    }
  }

  /** Work that ended since a kernel gave up does not pass for right while it is asked why. */
  @Test
  void aStreamReportsAFailureThatAnotherThreadIsExplaining() throws Exception {
    assumeKernels();
    try (GpuRanks ranks = new GpuRanks(2, Duration.ofSeconds(3));
        DeviceMemory buffer = ranks.devices.get(0).allocate(4000)) {
      var communicator = ranks.communicators.get(0);
      CudaStream stream = ranks.streams.get(0);
      CollectiveWork work = sum(Operation.ALL_REDUCE, Algorithm.RING, Protocol.SIMPLE);
      communicator.launch(communicator.prepare(work), buffer, buffer, stream);
      CountDownLatch asked = new CountDownLatch(1);
      CountDownLatch answer = new CountDownLatch(1);
      communicator.explainDeadlines(
          () -> {
            asked.countDown();
            assertDoesNotThrow(() -> answer.await(300, TimeUnit.SECONDS));
            return "rank 1 never came";
          },
          () -> "");
      communicator.memory().control().putInt(KernelLayout.CONTROL_FAILED, 1);
      CompletableFuture<?> observer = onItsThread(communicator::failure);
      assertTrue(asked.await(300, TimeUnit.SECONDS));
      CompletableFuture<?> user = onItsThread(stream::synchronize);
      assertThrows(TimeoutException.class, () -> user.get(50, TimeUnit.MILLISECONDS));
      answer.countDown();
      observer.get(300, TimeUnit.SECONDS);
      var error = assertThrows(ExecutionException.class, () -> user.get(300, TimeUnit.SECONDS));
      assertTrue(error.getMessage().contains("; rank 1 never came"), error.getMessage());
    }
  }

  /** The common pool may have one thread. */
  private static CompletableFuture<Void> onItsThread(Runnable what) {
    return CompletableFuture.runAsync(what, task -> new Thread(task).start());
  }

  @Test
  void afterAnAbortItsCauseIsThrown() {
    try (GpuRanks ranks = new GpuRanks(2, Duration.ofSeconds(3))) {
      var communicator = ranks.communicators.get(0);
      communicator.abort(new RemoteException("rank 1 is gone", "restart it"));
      communicator.abort(new RemoteException("another", "none"));
      var error =
          assertThrows(
              RemoteException.class,
              () ->
                  communicator.prepare(sum(Operation.ALL_REDUCE, Algorithm.RING, Protocol.SIMPLE)));
      assertEquals("rank 1 is gone", error.problem());
    }
  }
}
