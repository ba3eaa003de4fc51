package org.nccl4j.device.cuda.plan;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.lang.management.BufferPoolMXBean;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.cuda.AgainstFakeCuda;
import org.nccl4j.device.cuda.CudaGraph;
import org.nccl4j.device.cuda.CudaStream;
import org.nccl4j.device.cuda.FakeCuda;
import org.nccl4j.device.cuda.GpuRanks;
import org.nccl4j.device.cuda.driver.CudaLibrary;
import org.nccl4j.device.cuda.driver.CudaResult;
import org.nccl4j.device.cuda.driver.DriverLibrary;
import org.nccl4j.device.cuda.driver.KernelBuild;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.device.kernel.KernelPlan;
import org.nccl4j.device.kernel.P2pWork;
import org.nccl4j.operation.Protocol;

/** Memory of plans that come and go, against the recording driver. */
class PlanTablesTest extends AgainstFakeCuda {
  private static final int WORKS = 70; // a kernel's arguments have room for 64
  private static final int KEPT = 20;

  /** Less than a thousand plans take, and more than other threads take for files. */
  private static final long MOST_DIRECT_BYTES = 256 << 10;

  private static final int RELAXED = 2; // CU_STREAM_CAPTURE_MODE_RELAXED

  private GpuRanks ranks;
  private KernelCommunicator communicator;
  private CudaStream stream;
  private DeviceMemory buffer;

  @BeforeEach
  void makeRanks() {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    ranks = new GpuRanks(2, Duration.ofSeconds(3));
    communicator = ranks.communicators().get(0);
    stream = ranks.streams.get(0);
    buffer = ranks.devices.get(0).allocate(1 << 16);
  }

  @AfterEach
  void closeRanks() {
    if (ranks != null) {
      buffer.close();
      ranks.close();
    }
  }

  private KernelPlan plan(int works, int bytes) {
    List<P2pWork> all = new ArrayList<>();
    for (int work = 0; work < works; work++) {
      P2pWork.Kind kind = work % 2 == 0 ? P2pWork.Kind.SEND : P2pWork.Kind.RECV;
      all.add(new P2pWork(kind, 1, buffer, 8 * work, bytes, Protocol.LL));
    }
    return communicator.prepare(all);
  }

  /** As a planner does with a cache of a few plans. */
  private void comeAndGo(Deque<KernelPlan> cache, int works, int from, int to) {
    for (int call = from; call < to; call++) {
      KernelPlan plan = plan(works, 1 + call);
      cache.add(plan);
      communicator.launch(plan, null, null, stream);
      if (cache.size() > KEPT) {
        cache.remove().discard();
      }
      fake.fakeReset(); // the record is not endless
    }
  }

  private static long direct() {
    return ManagementFactory.getPlatformMXBeans(BufferPoolMXBean.class).stream()
        .filter(pool -> pool.getName().equals("direct"))
        .mapToLong(BufferPoolMXBean::getTotalCapacity)
        .sum();
  }

  @Test
  void plansThatComeAndGoTakeNoMoreMemory() {
    Deque<KernelPlan> cache = new ArrayDeque<>();
    comeAndGo(cache, WORKS, 0, 100);
    long live = FakeCuda.live();
    long device = communicator.memoryBytes();
    long direct = direct();
    comeAndGo(cache, WORKS, 100, 1100);
    assertEquals(live, FakeCuda.live(), "allocations and events");
    assertEquals(device, communicator.memoryBytes());
    assertTrue(direct() <= direct + MOST_DIRECT_BYTES, direct + " became " + direct());
  }

  @Test
  void plansWithoutTablesLeaveTheirArgumentsToOthers() {
    Deque<KernelPlan> cache = new ArrayDeque<>();
    comeAndGo(cache, 2, 0, 100);
    long direct = direct();
    comeAndGo(cache, 2, 100, 1100);
    assertTrue(direct() <= direct + MOST_DIRECT_BYTES, direct + " became " + direct());
  }

  @Test
  void aTableIsCopiedOnceAndHoldsWhatThePlanSays() {
    CudaKernelPlan plan = (CudaKernelPlan) plan(WORKS, 5);
    fake.fakeReset();
    communicator.launch(plan, null, null, stream);
    communicator.launch(plan, null, null, stream);
    assertEquals(1, calls("cuMemcpyAsync("));
    assertEquals(0, calls("cuMemAlloc("), "memory is there before the launch");
    assertEquals(0, calls("cuStreamSynchronize("));
    assertEquals(5, firstBytes(plan));
    assertEquals(8, tableBytes(plan));
  }

  /** Work 0 of the plan, as the device has it. */
  private long firstBytes(CudaKernelPlan plan) {
    long works = plan.arguments().getLong(KernelLayout.WORKS);
    return at(works + KernelLayout.WORK_BYTES);
  }

  /** The distance between works 0 and 1 of the first group; work 1 was given third. */
  private long tableBytes(CudaKernelPlan plan) {
    long works = plan.arguments().getLong(KernelLayout.WORKS);
    return (at(works + KernelLayout.WORK_SIZE) - at(works)) / 2;
  }

  private long at(long address) {
    ByteBuffer word = ByteBuffer.allocate(8).order(ByteOrder.nativeOrder());
    ranks.devices.get(0).wrap(address, 8).read(0, word);
    return word.getLong(0);
  }

  @Test
  void aTableIsNoOtherPlansWhileItsLaunchRuns() {
    CudaKernelPlan plan = (CudaKernelPlan) plan(WORKS, 5);
    communicator.launch(plan, null, null, stream);
    long table = plan.arguments().getLong(KernelLayout.GROUPS);
    fake.fakeFail("cuEventQuery", CudaResult.NOT_READY);
    plan.discard();
    plan.discard();
    assertFalse(takesAll(table), "its launch may not have ended");
    fake.fakeFail("", 0);
    assertTrue(takesAll(table));
  }

  /** Makes plans until one has a table, or more than there are; discards none that was launched. */
  private boolean takesAll(long table) {
    boolean taken = false;
    for (int more = 0; more < 200 && !taken; more++) {
      CudaKernelPlan other = (CudaKernelPlan) plan(WORKS, 6);
      taken = other.arguments().getLong(KernelLayout.GROUPS) == table;
    }
    return taken;
  }

  @Test
  void aCapturedTableIsItsGraphs() {
    CudaKernelPlan plan = (CudaKernelPlan) plan(WORKS, 5);
    long table = plan.arguments().getLong(KernelLayout.GROUPS);
    stream.beginCapture();
    communicator.launch(plan, null, null, stream);
    assertEquals(1, calls("cuMemcpyAsync("), "a graph brings it itself");
    try (CudaGraph graph = stream.endCapture()) {
      communicator.launch(plan, null, null, stream);
      plan.discard();
      assertFalse(takesAll(table));
      graph.launch(stream);
    }
    assertTrue(takesAll(table), "the graph has ended");
    assertFalse(fake.fakeRecord().contains("misuse"), fake.fakeRecord());
  }

  @Test
  void aTableOfTwoGraphsIsTheLasts() {
    CudaKernelPlan plan = (CudaKernelPlan) plan(WORKS, 5);
    long table = plan.arguments().getLong(KernelLayout.GROUPS);
    CudaGraph first = capture(plan);
    try (CudaGraph second = capture(plan)) {
      first.close();
      plan.discard();
      assertFalse(takesAll(table));
      second.launch(stream);
    }
    assertTrue(takesAll(table));
  }

  private CudaGraph capture(KernelPlan plan) {
    stream.beginCapture();
    communicator.launch(plan, null, null, stream);
    communicator.launch(plan, null, null, stream);
    return stream.endCapture();
  }

  /** Nobody says when it is launched. */
  @Test
  void aTableInAGraphOfOthersStays() {
    CudaKernelPlan plan = (CudaKernelPlan) plan(WORKS, 5);
    long table = plan.arguments().getLong(KernelLayout.GROUPS);
    assertEquals(0, DriverLibrary.CUDA.cuStreamBeginCapture_v2(stream.handle(), RELAXED));
    communicator.launch(plan, null, null, stream);
    long graph = CudaLibrary.endCapture(stream.handle(), stream.device());
    CudaLibrary.destroyGraph(0, graph, stream.device());
    plan.discard();
    assertFalse(takesAll(table));
  }

  private long calls(String call) {
    return fake.fakeRecord().lines().filter(line -> line.startsWith(call)).count();
  }
}
