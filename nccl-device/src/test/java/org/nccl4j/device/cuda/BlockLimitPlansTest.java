package org.nccl4j.device.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.time.Duration;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.ReductionOperator;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.cuda.copy.BesideArguments;
import org.nccl4j.device.cuda.driver.KernelBuild;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.device.kernel.KernelPlan;
import org.nccl4j.device.kernel.P2pWork;
import org.nccl4j.device.kernel.WindowWork;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/** Plans take no more blocks than works let them, against the recording driver. */
class BlockLimitPlansTest extends AgainstFakeCuda {
  private static final int LARGE = 2 << 20;
  private static final int MOST = 32 << 20;

  private GpuRanks ranks;
  private DirectRanks windows;
  private CudaKernelCommunicator communicator;
  private KernelPlan plan; // whose arguments the driver saw last

  @BeforeEach
  void makeRanks() {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    ranks = new GpuRanks(2, Duration.ofSeconds(300));
    windows = new DirectRanks(ranks, MOST);
    communicator = ranks.communicators.get(0);
  }

  @AfterEach
  void closeRanks() {
    if (ranks != null) {
      fake.fakeReset(); // copies that wait for the other rank, which launches nothing
      windows.close();
      ranks.close();
    }
  }

  private static String end(KernelPlan plan) {
    return plan.toString().replaceAll(".* by ", "");
  }

  @Test
  void aSendAndAReceive() {
    try (DeviceMemory buffer = ranks.devices.get(0).allocate(64)) { // nothing is launched
      List<P2pWork> works =
          Stream.of(P2pWork.Kind.SEND, P2pWork.Kind.RECV)
              .map(kind -> new P2pWork(kind, 1, buffer, 0, 256 << 20, Protocol.SIMPLE))
              .toList();
      List<P2pWork> limited = works.stream().map(work -> work.onAtMost(4)).toList();
      assertEquals("128 blocks", end(communicator.prepare(works)));
      assertEquals("8 blocks", end(communicator.prepare(limited)));
      assertEquals("8 blocks", end(communicator.prepare(signed(limited))));
      assertEquals(8, communicator.prepare(limited).blocks());
    }
  }

  private static List<P2pWork> signed(List<P2pWork> works) {
    return works.stream().map(work -> work.signed(7)).collect(Collectors.toList());
  }

  @Test
  void aCopyToItself() {
    try (DeviceMemory buffer = ranks.devices.get(0).allocate(64)) {
      List<P2pWork> works =
          Stream.of(P2pWork.Kind.SEND, P2pWork.Kind.RECV)
              .map(kind -> new P2pWork(kind, 0, buffer, 0, 1 << 20, Protocol.SIMPLE))
              .map(work -> work.kind() == P2pWork.Kind.SEND ? at(work, 2 << 20) : work)
              .map(work -> work.onAtMost(4))
              .toList();
      assertEquals("4 blocks", end(communicator.prepare(works)));
    }
  }

  @Test
  void aCollectiveOfOneRank() {
    try (GpuRanks one = new GpuRanks(1, Duration.ofSeconds(300))) {
      CudaKernelCommunicator alone = one.communicators.get(0);
      ReductionOperator twice = ReductionOperator.preMulSum(DataType.FLOAT32, 2);
      assertEquals("33 blocks", end(alone.prepare(collective(0))));
      assertEquals("4 blocks", end(alone.prepare(collective(4))));
      assertEquals("16 blocks", end(alone.prepare(collective(0), twice)));
      assertEquals("4 blocks", end(alone.prepare(collective(4), twice)));
    }
  }

  private static CollectiveWork collective(int most) {
    return new CollectiveWork(
        Operation.ALL_REDUCE,
        Algorithm.RING,
        Protocol.SIMPLE,
        DataType.FLOAT32,
        RedOp.SUM,
        0,
        1 << 18,
        2,
        1 << 20,
        most,
        0);
  }

  private static P2pWork at(P2pWork work, long offset) {
    return new P2pWork(
        work.kind(), work.peer(), work.buffer(), offset, work.bytes(), work.protocol());
  }

  private WindowWork direct(Operation operation, Algorithm way, int most) {
    return new WindowWork(
        operation,
        way,
        DataType.INT8,
        RedOp.SUM,
        0,
        LARGE,
        windows.sends.get(0),
        windows.recvs.get(0),
        0,
        most,
        /* apart= */ false);
  }

  @Test
  void whatGoesBetweenWindows() {
    assertEquals(
        "64 blocks",
        end(communicator.prepare(direct(Operation.ALL_GATHER, Algorithm.DIRECT_ONE_SHOT, 0))));
    assertEquals(
        "4 blocks",
        end(communicator.prepare(direct(Operation.ALL_GATHER, Algorithm.DIRECT_ONE_SHOT, 4))));
  }

  @Test
  void whatGoesBesideCopyEngines() {
    assertEquals("32", launched(Operation.ALL_GATHER, 0));
    assertEquals(32, plan.blocks());
    assertEquals("8", launched(Operation.ALL_GATHER, 8));
    assertEquals("8", launched(Operation.ALL_REDUCE, 8));
    assertEquals("32", launched(Operation.REDUCE_SCATTER, 0));
    assertEquals(10, movers());
    assertEquals("12", launched(Operation.REDUCE_SCATTER, 12));
    assertEquals(2, movers());
    assertEquals("2", launched(Operation.REDUCE_SCATTER, 2), "one moves and one combines");
    assertEquals(1, movers());
    assertEquals("1", launched(Operation.REDUCE_SCATTER, 1), "the kernel loads all");
    assertEquals(0, engineBytes());
  }

  /** Those that come early keep multiprocessors from other kernels meanwhile. */
  @Test
  void blocksOfLargeOperationsDoNotComeEarly() {
    assertTrue(comesEarly(LARGE));
    assertFalse(comesEarly(MOST));
  }

  @Test
  void aWorkMayAskForBlocksThatDoNotComeEarly() {
    assertFalse(comesEarly(LARGE, /* apart= */ true));
  }

  /** A kernel that lets others in before it is sure to end must itself find room. */
  @Test
  void manyBlocksComeEarlyBehindManyOthersOnly() {
    assertTrue(comesEarly(LARGE, /* blocks= */ 64, /* apart= */ false));
    assertTrue(comesEarly(LARGE));
    assertFalse(comesEarly(LARGE, /* blocks= */ 64, /* apart= */ false));
  }

  /** While they wait, kernels that compute would lack their multiprocessors. */
  @Test
  void manyBlocksOfLongOperationsDoNotComeEarly() {
    assertTrue(comesEarly(LARGE, /* blocks= */ 64, /* apart= */ false));
    assertFalse(comesEarly(2 * LARGE, /* blocks= */ 64, /* apart= */ false));
  }

  /** A graph's kernels are not in front of the next launch, nor are launches in front of them. */
  @Test
  void manyBlocksDoNotLookAtKernelsOfGraphs() {
    CudaStream stream = ranks.streams.get(0);
    assertTrue(comesEarly(LARGE));
    stream.beginCapture();
    assertFalse(comesEarly(LARGE, /* blocks= */ 64, /* apart= */ false), "behind a kernel unknown");
    assertTrue(comesEarly(LARGE, /* blocks= */ 64, /* apart= */ false), "behind many in the graph");
    stream.endCapture().close();
    assertFalse(comesEarly(LARGE, /* blocks= */ 64, /* apart= */ false), "behind few");
    stream.beginCapture();
    assertTrue(comesEarly(LARGE));
    assertFalse(comesEarly(LARGE, /* blocks= */ 64, /* apart= */ false), "behind few in the graph");
    stream.endCapture().close();
    assertTrue(comesEarly(LARGE, /* blocks= */ 64, /* apart= */ false), "behind many");
  }

  private boolean comesEarly(int count) {
    return comesEarly(count, /* apart= */ false);
  }

  private boolean comesEarly(int count, boolean apart) {
    return comesEarly(count, 16, apart);
  }

  private boolean comesEarly(int count, int blocks, boolean apart) {
    int before = fake.fakeRecord().length(); // a reset would end a capture
    WindowWork work =
        new WindowWork(
            Operation.ALL_REDUCE,
            Algorithm.DIRECT_TWO_SHOT,
            DataType.INT8,
            RedOp.SUM,
            0,
            count,
            windows.sends.get(0),
            windows.recvs.get(0),
            blocks,
            0,
            apart);
    plan = communicator.prepare(work);
    communicator.launch(plan, windows.send.get(0), windows.recv.get(0), ranks.streams.get(0));
    String launch =
        fake.fakeRecord()
            .substring(before)
            .lines()
            .filter(line -> line.startsWith("cuLaunchKernelEx("))
            .findFirst()
            .get();
    return launch.contains("6:1"); // programmatic stream serialization
  }

  @Test
  void whatGoesBesideCopyEnginesInAGraph() {
    ranks.streams.get(0).beginCapture();
    assertEquals("8, 8, 8", launched(Operation.ALL_GATHER, 8));
    ranks.streams.get(0).endCapture().close();
  }

  /** The blocks of each kernel. */
  private String launched(Operation operation, int most) {
    int before = fake.fakeRecord().length(); // a reset would end a capture
    plan = communicator.prepare(direct(operation, Algorithm.COPY_ENGINE, most));
    communicator.launch(plan, windows.send.get(0), windows.recv.get(0), ranks.streams.get(0));
    return fake.fakeRecord()
        .substring(before)
        .lines()
        .filter(line -> line.startsWith("cuLaunchKernelEx("))
        .map(line -> line.replaceAll(".*\\((\\d+),.*", "$1"))
        .collect(Collectors.joining(", "));
  }

  @Test
  void fewMoversLeaveMoreToTheEngines() {
    launched(Operation.REDUCE_SCATTER, 0);
    long most = engineBytes();
    launched(Operation.REDUCE_SCATTER, 8);
    assertEquals(1, movers());
    assertTrue(engineBytes() > most, engineBytes() + " of engines, by 32 blocks " + most);
  }

  /**
   * With few blocks engines also bring the sums to the other rank, each as the kernel tells of it.
   */
  @Test
  void sumsOfFewBlocksAreGivenByEngines() {
    fake.fakeReset();
    launched(Operation.ALL_REDUCE, 0);
    assertEquals(1, copies());
    fake.fakeReset();
    launched(Operation.ALL_REDUCE, 12);
    assertEquals(2, copies());
  }

  private long copies() {
    return fake.fakeRecord().lines().filter(line -> line.startsWith("cuMemcpyAsync(")).count();
  }

  private long engineBytes() {
    Offheap arguments = new Offheap(BesideArguments.SIZE);
    fake.fakeAllArguments(arguments.address(), BesideArguments.SIZE);
    return arguments.getLong(BesideArguments.ENGINE_BYTES);
  }

  private int movers() {
    Offheap arguments = new Offheap(BesideArguments.SIZE);
    fake.fakeAllArguments(arguments.address(), BesideArguments.SIZE);
    return arguments.getInt(BesideArguments.MOVERS);
  }
}
