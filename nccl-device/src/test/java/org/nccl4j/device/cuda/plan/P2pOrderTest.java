package org.nccl4j.device.cuda.plan;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.cuda.AgainstFakeCuda;
import org.nccl4j.device.cuda.GpuRanks;
import org.nccl4j.device.cuda.driver.KernelBuild;
import org.nccl4j.device.kernel.KernelPlan;
import org.nccl4j.device.kernel.LaunchOptions;
import org.nccl4j.device.kernel.P2pWork;
import org.nccl4j.operation.Protocol;

/**
 * The blocks of sends and receives among ranks whose GPUs have room for few of them at a time, and
 * take them in order: a channel goes on where both ends are at work.
 */
class P2pOrderTest extends AgainstFakeCuda {
  private static final int SEND = 0;
  private static final int RECV = 1;
  private static final int MULTIPROCESSORS = 16; // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT

  /** A channel's end at a rank: kind, the other rank, channel. */
  private record Block(int kind, int peer, int channel) {
    Block partnerOf(int rank) {
      return new Block(kind == SEND ? RECV : SEND, rank, channel);
    }
  }

  @Test
  void twoLargeMessagesBothWaysGoOnWithRoomForTwoBlocks() {
    try (GpuRanks ranks = new GpuRanks(2, Duration.ofSeconds(3))) {
      check(ranks, List.of(new int[] {0, 1, 256 << 20}, new int[] {1, 0, 256 << 20}));
    }
  }

  /**
   * Of a GPU with many multiprocessors, a stream or other kernels may leave room for few blocks.
   */
  @Test
  void twoLargeMessagesBothWaysGoOnWhereOthersLeaveRoomForTwoBlocks() {
    try (GpuRanks ranks = new GpuRanks(2, Duration.ofSeconds(3))) {
      checkAsIs(ranks, List.of(new int[] {0, 1, 256 << 20}, new int[] {1, 0, 256 << 20}));
    }
  }

  /** Sends that end with no receiver at work begin first: they are faster so. */
  @Test
  void sendsThatFitTheSlotsComeFirstWhereAllBlocksAreAtWork() {
    assumeKernels();
    try (GpuRanks ranks = new GpuRanks(2, Duration.ofSeconds(3));
        DeviceMemory buffer = ranks.devices.get(0).allocate(64)) {
      int slots = 6 * ranks.spec.layout().simpleSlotBytes();
      for (boolean larger : new boolean[] {false, true}) {
        int bytes = larger ? slots + 1 : slots;
        List<Block> blocks =
            blocks(ranks, 0, List.of(new int[] {0, 1, bytes}, new int[] {1, 0, bytes}), buffer);
        int sends = blocks.size() / 2;
        boolean first = blocks.subList(0, sends).stream().allMatch(b -> b.kind == SEND);
        assertEquals(!larger, first, blocks.toString());
      }
    }
  }

  @Test
  void anyMessagesGoOnWithRoomForTwoBlocks() {
    Random random = new Random(17);
    try (GpuRanks ranks = new GpuRanks(4, Duration.ofSeconds(3))) {
      for (int round = 0; round < 20; round++) {
        check(ranks, anyMessages(random));
      }
    }
  }

  /** Triples (from, to, bytes) among four ranks. */
  private static List<int[]> anyMessages(Random random) {
    List<int[]> messages = new ArrayList<>();
    for (int i = random.nextInt(12); i >= 0; i--) {
      int bytes = 1 + random.nextInt(1 << random.nextInt(24));
      messages.add(new int[] {random.nextInt(4), random.nextInt(4), bytes});
    }
    return messages;
  }

  /**
   * On a small GPU all blocks of a kernel are at work at once, whatever the order of their begin.
   */
  @Test
  void kernelsOfAnyMessagesFitAndGoOn() {
    assumeKernels();
    Random random = new Random(18);
    for (int room : new int[] {2, 8, 14}) {
      LaunchOptions small = new LaunchOptions(0, false, false, room, Set.of());
      try (GpuRanks ranks = new GpuRanks(4, small, Duration.ofSeconds(3));
          DeviceMemory buffer = ranks.devices.get(0).allocate(64)) { // nothing is launched
        int several = 0;
        for (int round = 0; round < 20; round++) {
          List<int[]> messages = anyMessages(random);
          List<List<List<Block>>> kernels = new ArrayList<>();
          for (int rank = 0; rank < ranks.n; rank++) {
            KernelPlan plan =
                ranks.communicators().get(rank).prepare(works(rank, messages, buffer, room / 2));
            kernels.add(
                kernels(plan).stream()
                    .map(kernel -> fitting(kernel, room))
                    .collect(Collectors.toCollection(ArrayList::new)));
            several += kernels.get(rank).size() > 1 ? 1 : 0;
          }
          launchInOrder(kernels, room);
        }
        assertTrue(several > 0, "messages need several kernels");
      }
    }
  }

  private static List<CudaKernelPlan> kernels(KernelPlan plan) {
    List<? extends CudaPlan> plans =
        plan instanceof P2pLaunches several ? several.plans() : List.of((CudaPlan) plan);
    return plans.stream().map(CudaKernelPlan.class::cast).toList();
  }

  private static List<Block> fitting(CudaKernelPlan kernel, int room) {
    assertTrue(kernel.blocks() <= room, kernel + " with room for " + room);
    return new ArrayList<>(decode(kernel.arguments().bytes(), kernel.blocks()));
  }

  /** A rank's next kernel begins when its last has ended. */
  private static void launchInOrder(List<List<List<Block>>> kernels, int room) {
    boolean moved = true;
    while (moved) {
      moved = false;
      for (int rank = 0; rank < kernels.size(); rank++) {
        List<List<Block>> mine = kernels.get(rank);
        if (!mine.isEmpty() && mine.get(0).isEmpty()) {
          mine.remove(0);
          moved = true;
        }
        for (Block block : mine.isEmpty() ? List.<Block>of() : List.copyOf(mine.get(0))) {
          List<List<Block>> theirs = kernels.get(block.peer);
          if (!theirs.isEmpty() && theirs.get(0).remove(block.partnerOf(rank))) {
            mine.get(0).remove(block);
            moved = true;
          }
        }
      }
    }
    kernels.forEach(left -> assertEquals(List.of(), left, "wait for ever, with room for " + room));
  }

  /** Triples (from, to, bytes). */
  private void check(GpuRanks ranks, List<int[]> messages) {
    fake.fakeLack(MULTIPROCESSORS); // none, so that no blocks fit
    checkAsIs(ranks, messages);
  }

  private static void assumeKernels() {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
  }

  private static void checkAsIs(GpuRanks ranks, List<int[]> messages) {
    assumeKernels();
    try (DeviceMemory buffer = ranks.devices.get(0).allocate(64)) { // nothing is launched
      List<List<Block>> blocks = new ArrayList<>();
      for (int rank = 0; rank < ranks.n; rank++) {
        blocks.add(blocks(ranks, rank, messages, buffer));
      }
      for (int room : new int[] {2, 3, 20, 64}) {
        carryOut(blocks.stream().<List<Block>>map(ArrayList::new).toList(), room);
      }
    }
  }

  private static void carryOut(List<List<Block>> left, int room) {
    boolean moved = true;
    while (moved) {
      moved = false;
      for (int rank = 0; rank < left.size(); rank++) {
        for (Block block : List.copyOf(resident(left.get(rank), room))) {
          List<Block> there = left.get(block.peer);
          Block partner = block.partnerOf(rank);
          if (resident(there, room).contains(partner)) {
            left.get(rank).remove(block);
            there.remove(partner);
            moved = true;
          }
        }
      }
    }
    left.forEach(blocks -> assertEquals(List.of(), blocks, "wait for ever, with room for " + room));
  }

  private static List<Block> resident(List<Block> blocks, int room) {
    return blocks.subList(0, Math.min(room, blocks.size()));
  }

  /** A rank's blocks in the GPU's order, without those of copies and those with nothing to do. */
  private static List<Block> blocks(
      GpuRanks ranks, int rank, List<int[]> messages, DeviceMemory buffer) {
    CudaKernelPlan plan =
        (CudaKernelPlan)
            ranks.communicators().get(rank).prepare(works(rank, messages, buffer, /* most= */ 0));
    return decode(plan.arguments().bytes(), plan.blocks());
  }

  private static List<P2pWork> works(
      int rank, List<int[]> messages, DeviceMemory buffer, int most) {
    List<P2pWork> works = new ArrayList<>();
    for (int[] message : messages) {
      if (message[0] == rank) {
        works.add(work(P2pWork.Kind.SEND, message[1], buffer, message[2]).onAtMost(most));
      }
      if (message[1] == rank) {
        works.add(work(P2pWork.Kind.RECV, message[0], buffer, message[2]).onAtMost(most));
      }
    }
    return List.copyOf(works);
  }

  private static P2pWork work(P2pWork.Kind kind, int peer, DeviceMemory buffer, int bytes) {
    return new P2pWork(kind, peer, buffer, 0, bytes, Protocol.SIMPLE);
  }

  /** As the kernel finds its group and channel. */
  private static List<Block> decode(ByteBuffer arguments, int blocks) {
    List<Block> all = new ArrayList<>();
    Set<Block> seen = new HashSet<>();
    int groups = arguments.getInt(KernelLayout.N_GROUPS);
    int ends = 0;
    for (int group = 0; group < groups; group++) {
      ends += arguments.getShort(at(group) + KernelLayout.GROUP_N_BLOCKS);
    }
    for (int index = 0; index < blocks; index++) {
      int group = 0;
      while (group + 1 < groups
          && index >= arguments.getShort(at(group + 1) + KernelLayout.GROUP_FIRST_BLOCK)) {
        group++;
      }
      int channel = index - arguments.getShort(at(group) + KernelLayout.GROUP_FIRST_BLOCK);
      if (arguments.get(at(group) + KernelLayout.GROUP_BLOCK_STEP) == 2) {
        group -= channel & 1;
        channel = (channel + 1) / 2;
      }
      if (channel < arguments.getShort(at(group) + KernelLayout.GROUP_N_BLOCKS)) {
        int kind = arguments.get(at(group) + KernelLayout.GROUP_KIND);
        int peer = arguments.getShort(at(group) + KernelLayout.GROUP_PEER);
        Block block = new Block(kind, peer, channel);
        assertTrue(seen.add(block), block + " comes twice");
        if (kind == SEND || kind == RECV) {
          all.add(block);
        }
      }
    }
    assertEquals(ends, seen.size(), "each channel of each group has a block");
    return all;
  }

  private static int at(int group) {
    return KernelLayout.INLINE_GROUP_TABLE + group * KernelLayout.GROUP_BYTES;
  }
}
