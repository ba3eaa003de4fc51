package org.nccl4j.device.cuda.plan;

import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.cuda.module.KernelModules;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.device.kernel.KernelCommunicatorSpec;
import org.nccl4j.device.kernel.Nvls;
import org.nccl4j.device.kernel.NvlsLayout;
import org.nccl4j.device.kernel.Tree;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/** Turns collectives by NVLS, within a machine and between machines, into kernels. */
public final class NvlsPlans {
  private static final int TREE_THREADS = 512; // NCCL4J_NVLS_TREE_THREADS
  private static final int CHUNK_MULTIPLE = 128;
  private static final long STEPS_BYTES =
      (long) ConnectionLayout.CHANNELS * KernelLayout.NVLS_HEADS * KernelLayout.NVLS_STEPS_BYTES;

  private final PlanContext context;
  private final KernelCommunicatorSpec spec;
  private final CommunicatorMemory memory;

  /** Null where there is no NVLS, and until its memory is made. */
  private Nvls made;

  /** Steps of all channels' connections; null where there is no NVLS. */
  private final DeviceMemory steps;

  public NvlsPlans(PlanContext context) {
    this.context = context;
    this.spec = context.spec();
    this.memory = context.memory();
    // Not with the first plan: a rank that shares the GPU may have a kernel that waits for this
    // one.
    this.made = spec.nvls() == null || !spec.nvls().isMade() ? null : spec.nvls();
    this.steps = spec.nvls() == null ? null : context.planMemory().allocate(STEPS_BYTES);
  }

  /** Takes the memory; as {@link org.nccl4j.device.kernel.KernelCommunicator#attach(Nvls)}. */
  public void attach(Nvls nvls) {
    made = nvls;
  }

  public CudaKernelPlan prepare(CollectiveWork work) {
    Nvls nvls = made;
    boolean tree = work.algorithm() == Algorithm.NVLS_TREE;
    check(work, nvls);
    long bytes = Math.multiplyExact(work.count(), (long) work.type().bytes());
    int channels = channels(work, nvls, tree);
    Offheap arguments =
        context.offheap().take(tree ? NvlsTreeArguments.SIZE : KernelLayout.NVLS_ARGUMENTS_BYTES);
    put(arguments, work, nvls, bytes, channels);
    if (tree) {
      putTrees(arguments, nvls);
    }
    return new CudaKernelPlan(
        context,
        arguments,
        bytes == 0 ? 0 : kernel(work, nvls, tree),
        new CudaKernelPlan.Shape(channels, tree ? TREE_THREADS : KernelLayout.NVLS_THREADS, 0),
        CudaKernelPlan.Needs.of(work, spec.rank(), spec.nRanks(), bytes));
  }

  private long kernel(CollectiveWork work, Nvls nvls, boolean tree) {
    KernelModules kernels = context.kernels();
    boolean emulated = nvls.multicast().emulated();
    return tree
        ? kernels.nvlsTree(work.type(), emulated)
        : kernels.nvls(work.operation().reduces(), work.type(), "nccl4j_nvls", emulated);
  }

  /**
   * Returns the number of channels: at most those of the buffers and of the connections between
   * machines.
   */
  private int channels(CollectiveWork work, Nvls nvls, boolean tree) {
    int most = nvls.layout().nChannels();
    for (int end = 0; tree && end < NvlsTreeArguments.ENDS; end++) {
      for (Tree place : nvls.trees()) {
        int peer = rank(place, end);
        most = peer < 0 ? most : Math.min(most, spec.sends().get(peer).channels());
      }
    }
    int asked = work.nChannels();
    if (tree && (asked < 1 || asked > most)) {
      throw new InvalidArgumentException(
          ErrorId.ALGORITHM,
          "NVLSTree by %d channels, where rank %d has %d".formatted(asked, spec.rank(), most),
          "use at least one, and no more than all connections between machines have");
    }
    return asked > 0 ? Math.min(asked, most) : most;
  }

  private void put(Offheap arguments, CollectiveWork work, Nvls nvls, long bytes, int channels) {
    NvlsLayout layout = nvls.layout();
    int slot =
        nvls.machines() == 1
            ? layout.chunkBytes()
            : Math.min(
                layout.chunkBytes(), ConnectionSizes.sliceBytes(spec.layout(), Protocol.SIMPLE));
    int chunk = Math.min(slot, work.chunkBytes()) / CHUNK_MULTIPLE * CHUNK_MULTIPLE;
    memory.putCommunicator(arguments);
    arguments
        .putLong(KernelLayout.NVLS_BYTES, bytes)
        .putLong(KernelLayout.NVLS_STEPS, steps.address())
        .putLong(KernelLayout.NVLS_UNICAST, nvls.unicast().address())
        .putInt(KernelLayout.NVLS_COLLECTIVE, work.operation().ordinal())
        .putInt(KernelLayout.NVLS_OP, work.op().ordinal())
        .putInt(KernelLayout.NVLS_N_CHANNELS, channels)
        .putInt(KernelLayout.NVLS_CHUNK_BYTES, Math.max(CHUNK_MULTIPLE, chunk))
        .putInt(KernelLayout.NVLS_SLOT_BYTES, layout.chunkBytes())
        .putInt(KernelLayout.NVLS_LAYOUT_CHANNELS, layout.nChannels())
        .putInt(KernelLayout.NVLS_N_HEADS, layout.nHeads())
        .putInt(KernelLayout.NVLS_HEAD_RANK, nvls.headRank())
        .putInt(KernelLayout.SIGNATURE, work.signature());
    for (int view = 0; view < nvls.multicast().views().size(); view++) {
      arguments.putLong(
          KernelLayout.NVLS_VIEWS + 8 * view, nvls.multicast().views().get(view).address());
    }
    for (int head = 0; head < layout.nHeads(); head++) {
      arguments.putShort(
          KernelLayout.NVLS_HEAD_RANKS + KernelLayout.RANK_BYTES * head, nvls.heads().get(head));
    }
  }

  /**
   * This machine's ranks, and a head's places in its trees, which are empty for a rank that is no
   * head.
   */
  private void putTrees(Offheap arguments, Nvls nvls) {
    arguments
        .putInt(NvlsTreeArguments.N_MEMBERS, nvls.members().size())
        .putInt(NvlsTreeArguments.MEMBER, nvls.members().indexOf(spec.rank()));
    // With more of them than there is room for, the switch looks at all at once.
    int named = Math.min(KernelLayout.NVLS_HEADS, nvls.members().size());
    for (int member = 0; member < named; member++) {
      arguments.putShort(
          NvlsTreeArguments.MEMBER_RANKS + KernelLayout.RANK_BYTES * member,
          nvls.members().get(member));
    }
    for (int tree = 0; tree < NvlsTreeArguments.N_TREES; tree++) {
      int at = NvlsTreeArguments.TREES + tree * NvlsTreeArguments.TREE_BYTES;
      for (int end = 0; end < NvlsTreeArguments.ENDS; end++) {
        int peer = nvls.headRank() < 0 ? -1 : rank(nvls.trees().get(tree), end);
        arguments.putInt(at + NvlsTreeArguments.TREE_RANKS + 4 * end, peer);
        if (peer >= 0) {
          int place = at + NvlsTreeArguments.TREE_ENDS + end * KernelLayout.PEER_BYTES;
          memory.putPeer(arguments.bytes(), place, peer);
        }
      }
    }
  }

  /** Returns the rank of the parent (end 0) or of a child; -1 if there is none. */
  private static int rank(Tree place, int end) {
    if (end == 0) {
      return place.up();
    }
    return end - 1 < place.down().size() ? place.down().get(end - 1) : -1;
  }

  private static void check(CollectiveWork work, Nvls nvls) {
    String name = work.algorithm().label();
    boolean tree = work.algorithm() == Algorithm.NVLS_TREE;
    String why =
        nvls == null
            ? "this communicator is without"
            : nvls.machines() > 1 != tree
                ? "is for ranks on %s".formatted(tree ? "several machines" : "one machine")
                : !nvls.combines(work.operation(), work.type(), work.op())
                        || tree && work.operation() != Operation.ALL_REDUCE
                    ? "does not have it"
                    : null;
    if (why != null) {
      throw new InvalidArgumentException(
          ErrorId.ALGORITHM,
          "%s of %s (%s) by %s, which %s"
              .formatted(
                  work.operation().label(), work.type().label(), work.op().label(), name, why),
          "use another algorithm");
    }
    int most = Math.max(nvls.layout().nHeads(), nvls.multicast().views().size());
    if (most > KernelLayout.NVLS_HEADS) {
      throw new InvalidArgumentException(
          ErrorId.ALGORITHM,
          "%s with %d ranks of a machine; it goes up to %d"
              .formatted(name, most, KernelLayout.NVLS_HEADS),
          "use another algorithm");
    }
  }
}
