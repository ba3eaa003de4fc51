package org.nccl4j.device.cuda.window;

import java.util.List;
import jcuda.driver.CUdevice_attribute;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.cuda.plan.CudaKernelPlan;
import org.nccl4j.device.cuda.plan.PlanContext;
import org.nccl4j.device.kernel.ExpertKernels;
import org.nccl4j.device.kernel.ExpertSizes;
import org.nccl4j.device.kernel.KernelPlan;

/** Prepares the kernels that bring tokens to experts and their outputs back. */
public final class ExpertPlans implements ExpertKernels {
  private static final String DISPATCH = "nccl4j_dispatch";
  private static final String COMBINE = "nccl4j_combine";
  private static final int THREADS = 1024; // NCCL4J_EXPERT_THREADS

  /**
   * Threads of a block that has few rows, and mostly waits for them. Beside it the next kernel's
   * block finds room: with 640 threads a dispatch of 128 tokens took 2 us longer.
   */
  private static final int FEW_THREADS = 512;

  private static final int FEW_ROWS = 8192;
  private static final int STORE_BYTES = 512; // of a warp
  private static final int SEND = 1; // EXPERT_SEND
  private static final int RECEIVE = 2; // EXPERT_RECEIVE

  /** More blocks were not faster on 132 multiprocessors, for 128 tokens and for 4096. */
  private static final int MOST_BLOCKS = 128;

  private final PlanContext context;

  public ExpertPlans(PlanContext context) {
    this.context = context;
  }

  @Override
  public int mostBlocks(ExpertSizes sizes) {
    boolean fits =
        sizes.nRanks() <= ExpertLayout.RANKS
            && sizes.localExperts() <= ExpertLayout.LOCAL
            && sizes.experts() <= ExpertLayout.EXPERTS
            && sizes.entries() <= ExpertLayout.ENTRIES
            && Math.max(sizes.rowBytes(), sizes.wireBytes()) % 16 == 0
            && context.kernels().hasExperts(sizes.type());
    if (!fits) {
      return 0;
    }
    context.kernels().experts(sizes.type(), COMBINE); // loads all of the family
    return Math.min(MOST_BLOCKS, Math.min(context.gpu().multiprocessors(), sizes.maxTokens()));
  }

  @Override
  public long windowBytes(ExpertSizes sizes, int blocks) {
    return new ExpertLayout(sizes, blocks).windowBytes;
  }

  @Override
  public long ownBytes(ExpertSizes sizes, int blocks) {
    return new ExpertLayout(sizes, blocks).ownBytes;
  }

  /** Prepares the steps of an exchange by sends and receives. */
  public Steps steps(ExpertSizes sizes, int mostBlocks) {
    return new ExpertPackPlans(context, sizes, mostBlocks);
  }

  @Override
  public Plans prepare(ExpertSizes sizes, Form form, Memory memory) {
    return new Prepared(
        plan(sizes, form, memory, sizes.fp8() ? DISPATCH + "_fp8" : DISPATCH),
        plan(sizes, form, memory, COMBINE),
        sizes);
  }

  private CudaKernelPlan plan(ExpertSizes sizes, Form form, Memory memory, String kernel) {
    return new CudaKernelPlan(
        context,
        arguments(sizes, form, memory),
        context.kernels().experts(sizes.type(), kernel),
        new CudaKernelPlan.Shape(
            form.blocks(), sizes.rows() <= FEW_ROWS ? FEW_THREADS : THREADS, 0),
        new CudaKernelPlan.Needs(0, 0)); // callers know the sizes of a call
  }

  private Offheap arguments(ExpertSizes sizes, Form form, Memory memory) {
    ExpertLayout layout = new ExpertLayout(sizes, form.blocks());
    Offheap arguments = context.offheap().take(ExpertArguments.SIZE);
    context.memory().putCommunicator(arguments);
    List<DeviceMemory> peers = memory.window().peers();
    long first = peers.get(0).address();
    long own = memory.own().address();
    return arguments
        .putLong(ExpertArguments.WINDOW, first)
        .putLong(ExpertArguments.STRIDE, peers.size() == 1 ? 0 : peers.get(1).address() - first)
        .putLong(ExpertArguments.DISPATCH_FLAGS, layout.dispatchFlags)
        .putLong(ExpertArguments.COMBINE_FLAGS, layout.combineFlags)
        .putLong(ExpertArguments.BEGIN_FLAGS, layout.beginFlags)
        .putLong(ExpertArguments.MESSAGES, layout.messages)
        .putLong(ExpertArguments.MESSAGE_BYTES, layout.messageBytes)
        .putLong(ExpertArguments.TOKENS, layout.tokens)
        .putLong(ExpertArguments.STAGED_ROW, layout.stagedRow)
        .putLong(ExpertArguments.OUTPUTS, layout.outputs)
        .putLong(ExpertArguments.STATE, own + layout.state)
        .putLong(ExpertArguments.LISTS, own + layout.lists)
        .putLong(ExpertArguments.LIST_CAPACITY, layout.listCapacity)
        .putLong(ExpertArguments.PLACES, own + layout.places)
        .putLong(ExpertArguments.KEPT_EXPERTS, own + layout.keptExperts)
        .putLong(ExpertArguments.KEPT_WEIGHTS, own + layout.keptWeights)
        .putLong(ExpertArguments.KEPT_COUNT, own + layout.keptCount)
        .putLong(ExpertArguments.RECEIVED, memory.received().address())
        .putLong(ExpertArguments.SCALES, memory.scales().address())
        .putLong(ExpertArguments.COUNTS, memory.counts().address())
        .putLong(ExpertArguments.OFFSETS, memory.offsets().address())
        .putLong(ExpertArguments.ROWS, sizes.rows())
        .putInt(ExpertArguments.ROW_BYTES, (int) sizes.rowBytes())
        .putInt(ExpertArguments.WIRE_ROW, (int) sizes.wireBytes())
        .putInt(ExpertArguments.HIDDEN, sizes.hidden())
        .putInt(ExpertArguments.MAX_TOKENS, sizes.maxTokens())
        .putInt(ExpertArguments.BLOCK_TOKENS, layout.blockTokens)
        .putInt(ExpertArguments.TOP_K, sizes.topK())
        .putInt(ExpertArguments.N_EXPERTS, sizes.experts())
        .putInt(ExpertArguments.LOCAL_EXPERTS, sizes.localExperts())
        .putInt(ExpertArguments.COUNTS_OF_LINE, layout.countsOfLine)
        .putInt(ExpertArguments.WHOLE_LINES, form.wholeLines() ? 1 : 0)
        .putInt(ExpertArguments.PACE, sizes.nRanks() > 2 ? pace(form) : 0);
  }

  /**
   * Clock cycles in which the links take a warp's store from each block. Two ranks send each other
   * too little for the links to fall behind.
   */
  private int pace(Form form) {
    double clock = context.gpu().attribute(CUdevice_attribute.CU_DEVICE_ATTRIBUTE_CLOCK_RATE) * 1e3;
    return form.bandwidth() == 0
        ? 0
        : (int) Math.round(STORE_BYTES * form.blocks() * clock / (form.bandwidth() * 1e9));
  }

  /** The plans of one exchange. A launch copies the arguments that were set before it. */
  private record Prepared(CudaKernelPlan dispatch, CudaKernelPlan combine, ExpertSizes sizes)
      implements Plans {
    @Override
    public KernelPlan dispatch(
        DeviceMemory experts, DeviceMemory weights, int count, boolean whole) {
      dispatch
          .arguments()
          .putLong(ExpertArguments.EXPERTS, experts.address())
          .putLong(ExpertArguments.WEIGHTS, weights.address())
          .putInt(ExpertArguments.TOKEN_COUNT, count);
      return with(dispatch, whole ? SEND | RECEIVE : SEND);
    }

    @Override
    public KernelPlan receiveDispatch() {
      return with(dispatch, RECEIVE);
    }

    @Override
    public KernelPlan combine(long rows, long results, boolean whole) {
      combine.arguments().putLong(ExpertArguments.SENT_ROWS, Math.min(rows, sizes.rows()));
      return into(results, whole ? SEND | RECEIVE : SEND);
    }

    @Override
    public KernelPlan receiveCombine(long results) {
      return into(results, RECEIVE);
    }

    private KernelPlan into(long results, int parts) {
      int most = (int) Math.min(results, sizes.maxTokens());
      combine.arguments().putInt(ExpertArguments.RESULT_ROWS, most);
      return with(combine, parts);
    }

    private static KernelPlan with(CudaKernelPlan plan, int parts) {
      plan.arguments().putInt(ExpertArguments.PARTS, parts);
      return plan;
    }

    @Override
    public void discard() {
      dispatch.discard();
      combine.discard();
    }
  }
}
