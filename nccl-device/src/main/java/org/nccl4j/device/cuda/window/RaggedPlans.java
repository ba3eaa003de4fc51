package org.nccl4j.device.cuda.window;

import java.util.List;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.cuda.plan.CudaKernelPlan;
import org.nccl4j.device.cuda.plan.LocalReductionPlans;
import org.nccl4j.device.cuda.plan.PlanContext;
import org.nccl4j.device.kernel.ExpertKernels.Form;
import org.nccl4j.device.kernel.KernelCommunicator.LocalReduction;
import org.nccl4j.device.kernel.KernelPlan;
import org.nccl4j.device.kernel.RaggedKernels;

/** Prepares the kernels of exchanges by counts in device memory. */
public final class RaggedPlans implements RaggedKernels {
  private static final int THREADS = 512; // NCCL4J_RAGGED_THREADS

  /** Blocks for which a multiprocessor has room at least: few blocks may come early. */
  private static final int TOGETHER = 1;

  /** As many as of other kernels between windows, so that kernels find room beside each other. */
  private static final int MOST_BLOCKS = 64;

  /** Received bytes for which there is one block more: each thread has a line of them. */
  private static final long BLOCK_BYTES = 4 << 10;

  private static final int SUM_THREADS = 256; // NCCL4J_RAGGED_SUM_THREADS
  private static final int SUM_BLOCKS_OF_PROCESSOR = 4;

  /** Bytes of each copy that a thread of a sum has at once. */
  private static final int SUM_UNIT = 16;

  // What lines of a call carry; of a reduce-scatter its signature, which is never so small.
  private static final int TO_ALL = 1;
  private static final int GATHER = 2;

  private final PlanContext context;

  public RaggedPlans(PlanContext context) {
    this.context = context;
  }

  @Override
  public int mostBlocks(Sizes sizes) {
    if (sizes.nRanks() > RaggedLayout.RANKS || !context.kernels().hasRagged()) {
      return 0;
    }
    context.kernels().ragged(); // loads it
    long wanted = Math.max(1, Math.min(MOST_BLOCKS, sizes.receivedBytes() / BLOCK_BYTES));
    return (int) Math.min(wanted, context.gpu().multiprocessors());
  }

  @Override
  public long controlBytes(Sizes sizes, Form form) {
    return RaggedLayout.of(sizes, form).bytes();
  }

  @Override
  public long ownBytes(Sizes sizes, Form form) {
    return (long) Long.BYTES * form.blocks();
  }

  @Override
  public KernelPlan prepare(Sizes sizes, Memory memory, Combination how) {
    int values = sizes.elementBytes() / how.valueBytes();
    return how.function() == null
        ? sum(sizes, memory, how, values)
        : new LocalReductionPlans(context)
            .prepare(
                new LocalReduction(
                    how.function(),
                    sizes.nRanks(),
                    /* stride= */ 0,
                    sizes.maxCount() * values,
                    how.type(),
                    how.mostBlocks()),
                new LocalReductionPlans.Counted(memory.counts(), sizes.wide(), values));
  }

  private KernelPlan sum(Sizes sizes, Memory memory, Combination how, int values) {
    Offheap arguments = context.offheap().take(RaggedSumArguments.SIZE);
    context.memory().putCommunicator(arguments);
    arguments
        .putLong(RaggedSumArguments.COUNTED, memory.counts().address())
        .putInt(RaggedSumArguments.WIDE, sizes.wide() ? 1 : 0)
        .putInt(RaggedSumArguments.VALUES, values)
        .putInt(RaggedSumArguments.COPIES, sizes.nRanks())
        .putInt(RaggedSumArguments.OP, how.op().ordinal());
    int most = context.gpu().multiprocessors() * SUM_BLOCKS_OF_PROCESSOR;
    int allowed = how.mostBlocks() == 0 ? most : Math.min(most, how.mostBlocks());
    long ofBlock = (long) SUM_THREADS * SUM_UNIT;
    long wanted = (sizes.maxCount() * sizes.elementBytes() + ofBlock - 1) / ofBlock;
    return new CudaKernelPlan(
        context,
        arguments,
        context.kernels().raggedSum(how.type()),
        new CudaKernelPlan.Shape((int) Math.min(allowed, wanted), SUM_THREADS, 0),
        new CudaKernelPlan.Needs(0, 0)); // the device knows the sizes
  }

  @Override
  public Plan prepare(Sizes sizes, Form form, Memory memory) {
    return new Prepared(
        new CudaKernelPlan(
            context,
            arguments(sizes, form, memory),
            context.kernels().ragged(),
            new CudaKernelPlan.Shape(form.blocks(), THREADS, TOGETHER),
            new CudaKernelPlan.Needs(0, 0)), // the device knows the sizes of a call
        sizes,
        memory);
  }

  private Offheap arguments(Sizes sizes, Form form, Memory memory) {
    RaggedLayout layout = RaggedLayout.of(sizes, form);
    Offheap arguments = context.offheap().take(RaggedArguments.SIZE);
    context.memory().putCommunicator(arguments);
    List<DeviceMemory> peers = memory.window().peers();
    long first = peers.get(0).address();
    return arguments
        .putLong(RaggedArguments.WINDOW, first)
        .putLong(RaggedArguments.STRIDE, peers.size() == 1 ? 0 : peers.get(1).address() - first)
        .putLong(RaggedArguments.COUNTED, layout.counted())
        .putLong(RaggedArguments.LINES, layout.lines())
        .putLong(RaggedArguments.LINE_BYTES, layout.lineBytes())
        .putLong(RaggedArguments.FLAGS, layout.flags())
        .putLong(RaggedArguments.RECEIVED, memory.place())
        .putLong(RaggedArguments.CALLS, memory.own().address())
        .putLong(RaggedArguments.RECEIVED_COUNTS, memory.counts().address())
        .putLong(RaggedArguments.RECEIVED_OFFSETS, memory.offsets().address())
        .putLong(RaggedArguments.MAX_COUNT, sizes.maxCount())
        .putLong(RaggedArguments.MAX_RECEIVED, sizes.maxReceived())
        .putInt(RaggedArguments.ELEMENT_BYTES, sizes.elementBytes())
        .putInt(RaggedArguments.WIDE, sizes.wide() ? 1 : 0);
  }

  /** The plan of one exchange. A launch copies the arguments that were set before it. */
  private record Prepared(CudaKernelPlan kernel, Sizes sizes, Memory memory) implements Plan {
    @Override
    public KernelPlan allToAll(DeviceMemory counts, long room) {
      return with(counts, sizes.nRanks(), room, TO_ALL);
    }

    @Override
    public KernelPlan scatter(DeviceMemory counts, long room, int signature) {
      return with(counts, sizes.nRanks(), room, signature);
    }

    @Override
    public KernelPlan allGather(DeviceMemory count, long room) {
      return with(count, 1, room, GATHER);
    }

    private KernelPlan with(DeviceMemory counts, int numbers, long room, int signature) {
      long bytes = (long) numbers * sizes.countBytes();
      boolean kept =
          !overlap(counts.address(), bytes, memory.received())
              && !overlap(counts.address(), bytes, memory.counts())
              && !overlap(counts.address(), bytes, memory.offsets());
      kernel
          .arguments()
          .putLong(RaggedArguments.COUNTS, counts.address())
          .putLong(RaggedArguments.SEND_ELEMENTS, room)
          .putInt(RaggedArguments.GATHERS, signature == GATHER ? 1 : 0)
          .putInt(RaggedArguments.COMBINES, signature > GATHER ? 1 : 0)
          .putInt(RaggedArguments.SIGNATURE, signature)
          .putInt(RaggedArguments.KEEPS_COUNTS, kept ? 1 : 0);
      return kernel;
    }

    private static boolean overlap(long address, long bytes, DeviceMemory written) {
      long apart = address - written.address();
      return apart < written.size() && apart > -bytes;
    }

    @Override
    public void discard() {
      kernel.discard();
    }
  }
}
