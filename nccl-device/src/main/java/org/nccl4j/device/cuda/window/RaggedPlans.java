package org.nccl4j.device.cuda.window;

import java.util.List;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.cuda.plan.CudaKernelPlan;
import org.nccl4j.device.cuda.plan.PlanContext;
import org.nccl4j.device.kernel.KernelPlan;
import org.nccl4j.device.kernel.RaggedKernels;

/** Prepares the kernel of exchanges by counts in device memory. */
public final class RaggedPlans implements RaggedKernels {
  /** NCCL4J_RAGGED_RANKS of ragged_layout.h. */
  static final int RANKS = 32;

  private static final int THREADS = 512; // ragged::kThreads

  /** Blocks for which a multiprocessor has room at least: few blocks may come early. */
  private static final int TOGETHER = 1;

  /** As many as of other kernels between windows, so that kernels find room beside each other. */
  private static final int MOST_BLOCKS = 64;

  /** Received bytes for which there is one block more. */
  private static final long BLOCK_BYTES = 16 << 10;

  private static final int LINE_BYTES = 16;
  private static final int ALIGNMENT = 128;

  private final PlanContext context;

  public RaggedPlans(PlanContext context) {
    this.context = context;
  }

  @Override
  public int mostBlocks(Sizes sizes) {
    if (sizes.nRanks() > RANKS || !context.kernels().hasRagged()) {
      return 0;
    }
    context.kernels().ragged(); // loads it
    long wanted = Math.max(1, Math.min(MOST_BLOCKS, sizes.receivedBytes() / BLOCK_BYTES));
    return (int) Math.min(wanted, context.gpu().multiprocessors());
  }

  @Override
  public long controlBytes(Sizes sizes, int blocks) {
    return flags(sizes) + aligned((long) Long.BYTES * RANKS * blocks);
  }

  /** The place of the flags in the window. In front of them are the lines. */
  private static long flags(Sizes sizes) {
    return aligned((long) LINE_BYTES * sizes.nRanks() * (sizes.nRanks() + 1));
  }

  private static long aligned(long bytes) {
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  }

  @Override
  public long ownBytes(Sizes sizes, int blocks) {
    return (long) Long.BYTES * blocks;
  }

  @Override
  public Plan prepare(Sizes sizes, int blocks, Memory memory) {
    return new Prepared(
        new CudaKernelPlan(
            context,
            arguments(sizes, blocks, memory),
            context.kernels().ragged(),
            new CudaKernelPlan.Shape(blocks, THREADS, TOGETHER),
            new CudaKernelPlan.Needs(0, 0))); // the device knows the sizes of a call
  }

  private Offheap arguments(Sizes sizes, int blocks, Memory memory) {
    Offheap arguments = context.offheap().take(RaggedArguments.SIZE);
    context.memory().putCommunicator(arguments);
    List<DeviceMemory> peers = memory.window().peers();
    long first = peers.get(0).address();
    return arguments
        .putLong(RaggedArguments.WINDOW, first)
        .putLong(RaggedArguments.STRIDE, peers.size() == 1 ? 0 : peers.get(1).address() - first)
        .putLong(RaggedArguments.LINES, 0)
        .putLong(RaggedArguments.FLAGS, flags(sizes))
        .putLong(RaggedArguments.RECEIVED, memory.received())
        .putLong(RaggedArguments.CALLS, memory.own().address())
        .putLong(RaggedArguments.RECEIVED_COUNTS, memory.counts().address())
        .putLong(RaggedArguments.RECEIVED_OFFSETS, memory.offsets().address())
        .putLong(RaggedArguments.MAX_COUNT, sizes.maxCount())
        .putLong(RaggedArguments.MAX_RECEIVED, sizes.maxReceived())
        .putInt(RaggedArguments.ELEMENT_BYTES, sizes.elementBytes())
        .putInt(RaggedArguments.WIDE, sizes.wide() ? 1 : 0);
  }

  /** The plan of one exchange. A launch copies the arguments that were set before it. */
  private record Prepared(CudaKernelPlan kernel) implements Plan {
    @Override
    public KernelPlan allToAll(DeviceMemory counts, long room) {
      return with(counts, room, 0);
    }

    @Override
    public KernelPlan allGather(DeviceMemory count, long room) {
      return with(count, room, 1);
    }

    private KernelPlan with(DeviceMemory counts, long room, int gathers) {
      kernel
          .arguments()
          .putLong(RaggedArguments.COUNTS, counts.address())
          .putLong(RaggedArguments.SEND_ELEMENTS, room)
          .putInt(RaggedArguments.GATHERS, gathers);
      return kernel;
    }

    @Override
    public void discard() {
      kernel.discard();
    }
  }
}
