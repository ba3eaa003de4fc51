package org.nccl4j.device.cuda.plan;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.device.DataType;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.cuda.AgainstFakeCuda;
import org.nccl4j.device.cuda.GpuRanks;
import org.nccl4j.device.cuda.driver.KernelBuild;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.device.kernel.KernelCommunicatorSpec;
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
        "few channels have shares");
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

  /**
   * A proxy takes a step's size from the word where a round's number would be, on all ranks alike:
   * numbers travel round the whole ring.
   */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void noChannelClaimsWhereAProxyCarriesAnyRanksSteps(boolean ownAreCarried) {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    int channels = 32;
    try (GpuRanks ranks = new GpuRanks(2, Duration.ofSeconds(3));
        KernelCommunicator carried =
            ranks
                .devices
                .get(1)
                .createKernelCommunicator(carried(ranks.spec, ownAreCarried ? channels : 0))) {
      for (Operation operation : Operation.collectives()) {
        CollectiveWork work = work(operation, Algorithm.RING, Protocol.SIMPLE, 1 << 28, channels);
        assertNotEquals(0, told(ranks.communicators().get(1), work));
        assertEquals(0, told(carried, work));
      }
    }
  }

  /** The last rank's, with some rank's connections carried. */
  private static KernelCommunicatorSpec carried(KernelCommunicatorSpec spec, int channels) {
    return new KernelCommunicatorSpec(
        spec.name(),
        spec.rank(),
        spec.nRanks(),
        spec.layout(),
        carried(spec.sends(), channels),
        carried(spec.recvs(), channels),
        spec.ring(),
        spec.trees(),
        spec.hosts(),
        /* carried= */ true,
        spec.local(),
        spec.progress(),
        spec.deadline(),
        spec.nvls(),
        spec.launching(),
        spec.connector(),
        spec.singleCopy());
  }

  private static List<Connection> carried(List<Connection> connections, int channels) {
    List<Connection> with = new ArrayList<>(connections);
    Connection first = with.get(0);
    with.set(0, new Connection(first.data(), first.credit(), channels, /* lines= */ true));
    return with;
  }

  private static long told(GpuRanks ranks, int rank, long count, int channels) {
    return told(
        ranks.communicators().get(rank),
        work(Operation.REDUCE, Algorithm.RING, Protocol.SIMPLE, 4 * count, channels));
  }

  private static long told(KernelCommunicator communicator, CollectiveWork work) {
    var plan = (CudaKernelPlan) communicator.prepare(work);
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
