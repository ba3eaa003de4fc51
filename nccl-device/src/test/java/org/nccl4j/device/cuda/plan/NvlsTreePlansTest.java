package org.nccl4j.device.cuda.plan;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.lang.ref.Reference;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.cuda.AgainstFakeCuda;
import org.nccl4j.device.cuda.GpuRanks;
import org.nccl4j.device.cuda.driver.KernelBuild;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.device.kernel.KernelPlan;
import org.nccl4j.device.kernel.NvlsLayout;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/** Plans of NVLS between machines against the recording driver, and their arguments' header. */
class NvlsTreePlansTest extends AgainstFakeCuda {
  private static final Duration DEADLINE = Duration.ofSeconds(3);
  private static final int COUNT = 100_000;

  private static CollectiveWork work(
      Operation operation, Algorithm algorithm, RedOp op, int channels) {
    return new CollectiveWork(
        operation, algorithm, Protocol.SIMPLE, DataType.FLOAT32, op, 0, COUNT, channels, 1 << 20);
  }

  @Test
  void argumentsLieWhereTheHeaderSays() throws Exception {
    assertEquals(
        "440 "
            + List.of(
                NvlsTreeArguments.N_MEMBERS,
                NvlsTreeArguments.MEMBER,
                NvlsTreeArguments.MEMBER_RANKS,
                NvlsTreeArguments.TREES,
                NvlsTreeArguments.SIZE,
                NvlsTreeArguments.N_TREES,
                NvlsTreeArguments.ENDS,
                NvlsTreeArguments.TREE_ENDS,
                NvlsTreeArguments.TREE_RANKS,
                NvlsTreeArguments.TREE_BYTES)
            + "\n",
        LayoutTest.run(
            "nvls_tree_layout.h",
            """
            #define AT(name) (int)offsetof(nccl4jNvlsTreeArguments, name)
            printf("%d [%d, %d, %d, %d, %d, %d, %d, %d, %d, %d]\\n",
                   (int)sizeof(nccl4jNvlsArguments), AT(nMembers), AT(member), AT(memberRanks),
                   AT(trees), (int)sizeof(nccl4jNvlsTreeArguments), NCCL4J_NVLS_TREES,
                   NCCL4J_NVLS_TREE_ENDS, (int)offsetof(nccl4jNvlsTree, ends),
                   (int)offsetof(nccl4jNvlsTree, ranks), (int)sizeof(nccl4jNvlsTree));
            """));
  }

  /** Ranks 1, 3 and 5 are the heads, in a heap and in a chain that begins with the last. */
  @ParameterizedTest
  @CsvSource({
    "0, -1, '-1 -1 -1', '-1 -1 -1'",
    "1, 0, '-1 3 5', '3 -1 -1'",
    "3, 0, '1 -1 -1', '5 1 -1'",
    "5, 0, '1 -1 -1', '-1 3 -1'",
  })
  void aHeadsTreesAreInItsArguments(int rank, int headRank, String first, String second) {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    NvlsLayout layout = new NvlsLayout(1, 16, 128 << 10);
    try (GpuRanks ranks = new GpuRanks("aabbcc", DEADLINE, null, layout);
        DeviceMemory buffer = ranks.devices.get(rank).allocate(4L * COUNT)) {
      var communicator = ranks.communicators().get(rank);
      CollectiveWork work = work(Operation.ALL_REDUCE, Algorithm.NVLS_TREE, RedOp.SUM, 3);
      KernelPlan plan = communicator.prepare(work); // which keeps its arguments
      communicator.launch(plan, buffer, buffer, ranks.streams.get(rank));
      assertTrue(fake.fakeRecord().contains("cuLaunchKernelEx(3,1,1,512,1,1,0,"));
      Offheap arguments = new Offheap(NvlsTreeArguments.SIZE);
      fake.fakeAllArguments(arguments.address(), NvlsTreeArguments.SIZE);
      Reference.reachabilityFence(plan);
      assertEquals(headRank, arguments.getInt(KernelLayout.NVLS_HEAD_RANK));
      assertEquals(2, arguments.getInt(NvlsTreeArguments.N_MEMBERS));
      assertEquals(rank % 2, arguments.getInt(NvlsTreeArguments.MEMBER));
      int other =
          arguments.getShort(
              NvlsTreeArguments.MEMBER_RANKS + KernelLayout.RANK_BYTES * (1 - rank % 2));
      assertEquals(rank ^ 1, other);
      int slot = ConnectionSizes.sliceBytes(ranks.spec.layout(), Protocol.SIMPLE);
      assertEquals(slot, arguments.getInt(KernelLayout.NVLS_CHUNK_BYTES), "of the connections");
      assertEquals(128 << 10, arguments.getInt(KernelLayout.NVLS_SLOT_BYTES));
      assertEquals(first, tree(ranks, arguments, 0));
      assertEquals(second, tree(ranks, arguments, 1));
    }
  }

  /** The peers whose ends exist, found by address. */
  private static String tree(GpuRanks ranks, Offheap arguments, int which) {
    int at = NvlsTreeArguments.TREES + which * NvlsTreeArguments.TREE_BYTES;
    StringBuilder text = new StringBuilder();
    for (int end = 0; end < NvlsTreeArguments.ENDS; end++) {
      int peer = arguments.getInt(at + NvlsTreeArguments.TREE_RANKS + 4 * end);
      int place = at + NvlsTreeArguments.TREE_ENDS + end * KernelLayout.PEER_BYTES;
      for (int field = 0; field < KernelLayout.PEER_BYTES; field += 8) {
        assertEquals(peer >= 0, arguments.getLong(place + field) != 0, "an address");
      }
      text.append(end == 0 ? "" : " ").append(peer);
    }
    return text.toString();
  }

  @ParameterizedTest
  @CsvSource({
    "aabb, ALL_REDUCE, NVLS_TREE, PROD, 2, which does not have it",
    "aabb, ALL_GATHER, NVLS_TREE, SUM, 2, which does not have it",
    "aabb, ALL_REDUCE, NVLS_TREE, SUM, 17, NVLSTree by 17 channels",
    "aabb, ALL_REDUCE, NVLS_TREE, SUM, 0, NVLSTree by 0 channels",
    "aabb, ALL_REDUCE, NVLS, SUM, 2, which is for ranks on one machine",
    "aa, ALL_REDUCE, NVLS_TREE, SUM, 2, which is for ranks on several machines",
  })
  void whatItHasNotIsRefused(
      String hosts, Operation operation, Algorithm algorithm, RedOp op, int channels, String why) {
    try (GpuRanks ranks = new GpuRanks(hosts, DEADLINE, null, new NvlsLayout(1, 16, 512))) {
      var communicator = ranks.communicators().get(0);
      CollectiveWork work = work(operation, algorithm, op, channels);
      var error = assertThrows(InvalidArgumentException.class, () -> communicator.prepare(work));
      assertTrue(error.problem().contains(why), error.problem());
    }
  }
}
