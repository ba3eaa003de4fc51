package org.nccl4j.device.cuda.plan;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.time.Duration;
import java.util.Optional;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.DataType;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.cuda.AgainstFakeCuda;
import org.nccl4j.device.cuda.GpuRanks;
import org.nccl4j.device.cuda.driver.KernelBuild;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/**
 * Claims of rounds by the channels of a ring, and the arguments of their kernels, against the
 * recording driver.
 */
class DynamicRingRoundsTest extends AgainstFakeCuda {
  private static final int SLICE = 640;

  @Test
  void whatIsLargeGoesByClaimsInRingsOfManyChannelsInSimple() {
    long least = 3L * 64 * 4 * SLICE;
    assertTrue(rounds(Operation.BROADCAST, Algorithm.RING, Protocol.SIMPLE, least, 64).isPresent());
    assertTrue(
        rounds(Operation.BROADCAST, Algorithm.RING, Protocol.SIMPLE, least - 1, 64).isEmpty());
    assertTrue(
        rounds(Operation.ALL_REDUCE, Algorithm.RING, Protocol.SIMPLE, 4 * least, 64).isPresent());
    assertTrue(
        rounds(Operation.ALL_REDUCE, Algorithm.RING, Protocol.SIMPLE, 4 * least - 1, 64).isEmpty());
    assertTrue(rounds(Operation.BROADCAST, Algorithm.RING, Protocol.LL128, least, 64).isEmpty());
    assertTrue(rounds(Operation.REDUCE, Algorithm.ONE_SHOT, Protocol.SIMPLE, least, 64).isEmpty());
    assertTrue(
        rounds(Operation.REDUCE, Algorithm.RING, Protocol.SIMPLE, least, 31).isEmpty(),
        "a proxy of some rank may tell sizes where numbers would go");
  }

  @Test
  void wholeRoundsLeaveSmallOnesToTheEnd() {
    long seed = 6;
    Random random = new Random(seed);
    for (int i = 0; i < 1000; i++) {
      Operation operation = Operation.collectives().get(i % 5);
      int channels = 32 + random.nextInt(33);
      int slice = 128 * (1 + random.nextInt(256));
      int chunks = operation == Operation.ALL_REDUCE ? 4 : 1;
      long whole = 4L * slice * chunks;
      long bytes = 3 * channels * whole + random.nextInt(1 << 30);
      CollectiveWork work = work(operation, Algorithm.RING, Protocol.SIMPLE, bytes, channels);
      DynamicRingRounds rounds =
          DynamicRingRounds.of(work, bytes, channels, slice, 4).orElseThrow();
      long small = (long) slice * chunks * rounds.smallSlices();
      long rest = bytes - rounds.whole() * whole;
      assertTrue(rounds.whole() >= channels, "each begins with a whole one, seed " + seed);
      assertTrue(rest >= channels / 3 * whole, "small ones for a third at least, seed " + seed);
      assertTrue((rest + small - 1) / small + rounds.whole() < 1L << 31, "seed " + seed);
    }
  }

  @Test
  void aKernelIsToldWhereToCountOnlyWhereItClaims() {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    try (GpuRanks ranks = new GpuRanks(2, Duration.ofSeconds(3))) {
      long count = 64 << 20;
      long claims = told(ranks, 0, count, 64);
      assertNotEquals(0, claims);
      assertEquals(
          claims, told(ranks, 0, 2 * count, 32), "one count for all of a communicator's kernels");
      assertNotEquals(claims, told(ranks, 1, count, 64));
      assertEquals(0, told(ranks, 0, count, 16));
      assertEquals(0, told(ranks, 0, 1 << 20, 64));
    }
  }

  private static long told(GpuRanks ranks, int rank, long count, int channels) {
    CollectiveWork work =
        work(Operation.REDUCE, Algorithm.RING, Protocol.SIMPLE, 4 * count, channels);
    var plan = (CudaKernelPlan) ranks.communicators().get(rank).prepare(work);
    return plan.arguments().bytes().getLong(KernelLayout.CLAIMS);
  }

  private static Optional<DynamicRingRounds> rounds(
      Operation operation, Algorithm algorithm, Protocol protocol, long bytes, int channels) {
    CollectiveWork work = work(operation, algorithm, protocol, bytes, channels);
    return DynamicRingRounds.of(work, bytes, channels, SLICE, 4);
  }

  private static CollectiveWork work(
      Operation operation, Algorithm algorithm, Protocol protocol, long bytes, int channels) {
    return new CollectiveWork(
        operation,
        algorithm,
        protocol,
        DataType.FLOAT32,
        RedOp.SUM,
        0,
        bytes / 4,
        channels,
        Integer.MAX_VALUE);
  }
}
