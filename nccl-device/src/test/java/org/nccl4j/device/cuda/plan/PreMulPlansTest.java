package org.nccl4j.device.cuda.plan;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.lang.ref.Reference;
import java.time.Duration;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.ReductionOperator;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.cuda.AgainstFakeCuda;
import org.nccl4j.device.cuda.GpuRanks;
import org.nccl4j.device.cuda.driver.KernelBuild;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/** Plans of pre-multiplied sums, against the recording driver. */
class PreMulPlansTest extends AgainstFakeCuda {
  private GpuRanks ranks;

  @BeforeEach
  void makeRanks() {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    ranks = new GpuRanks(3, Duration.ofSeconds(3));
    fake.fakeReset();
  }

  @AfterEach
  void closeRanks() {
    if (ranks != null) {
      ranks.close();
    }
  }

  private static CollectiveWork work(Operation operation, Algorithm algorithm, DataType type) {
    return new CollectiveWork(
        operation, algorithm, Protocol.LL128, type, RedOp.PROD, 1, 1000, 4, 1 << 20);
  }

  private CudaKernelPlan plan(DataType type, ReductionOperator operator) {
    CollectiveWork work = work(Operation.ALL_REDUCE, Algorithm.RING, type);
    return (CudaKernelPlan) ranks.communicators().get(1).prepare(work, operator);
  }

  @ParameterizedTest
  @CsvSource({
    "INT8, -3, 0xfd",
    "UINT8, 200, 0xc8",
    "INT32, -3, 0xfffffffd",
    "INT64, -3, 0xfffffffffffffffd",
    "UINT64, 1e19, 0x8ac7230489e80000",
    "FLOAT32, 0.5, 0x3f000000",
    "FLOAT16, 0.1, 0x2e66",
    "BFLOAT16, -2, 0xc000",
    "FLOAT8_E4M3, 1, 0x38",
  })
  void aValueIsAnElement(DataType type, double scalar, String bits) {
    Offheap arguments = plan(type, ReductionOperator.preMulSum(type, scalar)).arguments();
    assertEquals(KernelLayout.PREMUL, arguments.getInt(KernelLayout.OPERATOR));
    assertEquals(
        Long.parseUnsignedLong(bits.substring(2), 16), arguments.getLong(KernelLayout.SCALAR));
    assertEquals(0, arguments.getLong(KernelLayout.SCALAR_ADDRESS));
    assertEquals(1000L * type.bytes(), arguments.getLong(KernelLayout.BYTES));
    assertEquals(Algorithm.RING.ordinal(), arguments.getInt(KernelLayout.ALGORITHM));
  }

  @ParameterizedTest
  @CsvSource({
    "INT64, -9223372036854775807, 0x8000000000000001",
    "UINT64, -1, 0xffffffffffffffff",
    "UINT32, 4294967295, 0xffffffff",
    "FLOAT32, 16777217, 0x4b800000",
  })
  void aWholeNumberIsExact(DataType type, long scalar, String bits) {
    Offheap arguments = plan(type, ReductionOperator.preMulSum(type, scalar)).arguments();
    assertEquals(
        Long.parseUnsignedLong(bits.substring(2), 16), arguments.getLong(KernelLayout.SCALAR));
  }

  @Test
  void aScalarInMemoryIsReadByTheKernelAlone() {
    try (DeviceMemory scalar = ranks.devices.get(1).allocate(64);
        DeviceMemory data = ranks.devices.get(1).allocate(4000)) {
      fake.fakeReset();
      CudaKernelPlan plan =
          plan(DataType.FLOAT32, ReductionOperator.preMulSum(DataType.FLOAT32, scalar.slice(8, 4)));
      ranks.communicators().get(1).launch(plan, data, data, ranks.streams.get(1));
      assertFalse(fake.fakeRecord().contains("cuMemcpy"), fake.fakeRecord());
      Offheap launched = new Offheap(KernelLayout.COLLECTIVE_BYTES);
      fake.fakeAllArguments(launched.address(), KernelLayout.COLLECTIVE_BYTES);
      Reference.reachabilityFence(plan);
      assertEquals(scalar.address() + 8, launched.getLong(KernelLayout.SCALAR_ADDRESS));
      assertEquals(data.address(), launched.getLong(KernelLayout.RECV));
    }
  }

  @Test
  void otherPlansHaveNoScalar() {
    ReductionOperator twice = ReductionOperator.preMulSum(DataType.FLOAT32, 2);
    plan(DataType.FLOAT32, twice);
    CollectiveWork work = work(Operation.ALL_REDUCE, Algorithm.RING, DataType.FLOAT32);
    Offheap arguments = ((CudaKernelPlan) ranks.communicators().get(1).prepare(work)).arguments();
    assertEquals(RedOp.PROD.ordinal(), arguments.getInt(KernelLayout.OPERATOR));
    assertEquals(0, arguments.getLong(KernelLayout.SCALAR));
  }

  @ParameterizedTest
  @EnumSource(
      value = Operation.class,
      names = {"ALL_REDUCE", "REDUCE", "REDUCE_SCATTER"})
  void aloneItIsAKernelToo(Operation operation) {
    try (GpuRanks one = new GpuRanks(1, Duration.ofSeconds(3));
        DeviceMemory data = one.devices.get(0).allocate(1 << 20)) {
      CollectiveWork work =
          new CollectiveWork(
              operation,
              Algorithm.RING,
              Protocol.SIMPLE,
              DataType.INT32,
              RedOp.PROD,
              0,
              1 << 18,
              4,
              1 << 20);
      CudaKernelPlan plan =
          (CudaKernelPlan)
              one.communicators()
                  .get(0)
                  .prepare(work, ReductionOperator.preMulSum(DataType.INT32, 7));
      assertEquals(7, plan.arguments().getLong(KernelLayout.SCALAR));
      assertEquals(Operation.REDUCE.ordinal(), plan.arguments().getInt(KernelLayout.COLLECTIVE));
      assertEquals(Algorithm.ONE_SHOT.ordinal(), plan.arguments().getInt(KernelLayout.ALGORITHM));
      fake.fakeReset();
      one.communicators().get(0).launch(plan, data, data, one.streams.get(0));
      assertTrue(fake.fakeRecord().contains("cuLaunchKernelEx(16,1,1,576,"), fake.fakeRecord());
    }
  }

  private void refused(
      Class<? extends NcclException> kind,
      CollectiveWork work,
      ReductionOperator operator,
      String problem,
      String remedy) {
    fake.fakeReset();
    NcclException e =
        assertThrows(kind, () -> ranks.communicators().get(1).prepare(work, operator));
    assertTrue(e.problem().contains(problem), e.problem());
    assertTrue(e.getMessage().contains(remedy), e.getMessage());
    assertFalse(fake.fakeRecord().contains("cuLaunch"), fake.fakeRecord());
  }

  @Test
  void nothingAloneIsNothing() {
    try (GpuRanks alone = new GpuRanks(1, Duration.ofSeconds(3))) {
      CollectiveWork work =
          new CollectiveWork(
              Operation.ALL_REDUCE,
              Algorithm.RING,
              Protocol.SIMPLE,
              DataType.INT32,
              RedOp.PROD,
              0,
              0,
              4,
              1 << 20);
      CudaKernelPlan plan =
          (CudaKernelPlan)
              alone
                  .communicators()
                  .get(0)
                  .prepare(work, ReductionOperator.preMulSum(DataType.INT32, 7));
      assertTrue(plan.isEmpty());
    }
  }

  @Test
  void waysThatHaveNoneAreRefused() {
    ReductionOperator twice = ReductionOperator.preMulSum(DataType.FLOAT32, 2);
    for (Algorithm algorithm :
        new Algorithm[] {Algorithm.TWO_SHOT, Algorithm.NVLS, Algorithm.NVLS_TREE}) {
      assertFalse(ranks.communicators().get(1).reducesByOperator(algorithm));
      refused(
          InvalidArgumentException.class,
          work(Operation.ALL_REDUCE, algorithm, DataType.FLOAT32),
          twice,
          "no pre-multiplied sum by " + algorithm.label(),
          "use Ring, Tree, OneShot, PAT or Hierarchical");
    }
    assertTrue(ranks.communicators().get(1).reducesByOperator(Algorithm.ONE_SHOT));
    assertTrue(ranks.communicators().get(1).reducesByOperator(Algorithm.PAT));
    refused(
        InvalidArgumentException.class,
        work(Operation.ALL_GATHER, Algorithm.RING, DataType.FLOAT32),
        twice,
        "no pre-multiplied sum",
        "use Ring, Tree, OneShot, PAT or Hierarchical");
  }

  @Test
  void operatorsThatDoNotFitAreRefused() {
    CollectiveWork floats = work(Operation.ALL_REDUCE, Algorithm.RING, DataType.FLOAT32);
    refused(
        InvalidArgumentException.class,
        floats,
        ReductionOperator.preMulSum(DataType.INT32, 2),
        "of int32 is used for elements of float",
        "create it for the type");
    refused(
        InvalidUsageException.class,
        floats,
        ReductionOperator.of("mine", (a, b, target, count, type) -> {}),
        "no reduction 'mine'",
        "ReductionOperator.preMulSum");
    try (DeviceMemory theirs = ranks.devices.get(0).allocate(4);
        DeviceMemory hosts = HostDevice.instance().allocate(4)) {
      for (DeviceMemory scalar : new DeviceMemory[] {theirs, hosts}) {
        refused(
            InvalidArgumentException.class,
            floats,
            ReductionOperator.preMulSum(DataType.FLOAT32, scalar),
            "the scalar's memory belongs to " + scalar.device().name(),
            "allocate it on " + ranks.devices.get(1).name());
      }
    }
  }
}
