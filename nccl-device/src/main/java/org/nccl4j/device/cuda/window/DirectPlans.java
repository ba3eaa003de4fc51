package org.nccl4j.device.cuda.window;

import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.cuda.copy.BatchCopyPlan;
import org.nccl4j.device.cuda.copy.BesideArguments;
import org.nccl4j.device.cuda.copy.CopyEngineOverlapPlan;
import org.nccl4j.device.cuda.copy.CopyPlan;
import org.nccl4j.device.cuda.copy.RoundCopyPlan;
import org.nccl4j.device.cuda.copy.StreamBarrier;
import org.nccl4j.device.cuda.plan.CommunicatorMemory;
import org.nccl4j.device.cuda.plan.CudaKernelPlan;
import org.nccl4j.device.cuda.plan.CudaPlan;
import org.nccl4j.device.cuda.plan.KernelLayout;
import org.nccl4j.device.cuda.plan.PlanContext;
import org.nccl4j.device.cuda.stream.GpuStream;
import org.nccl4j.device.cuda.stream.InternalStreams;
import org.nccl4j.device.kernel.KernelCommunicatorSpec;
import org.nccl4j.device.kernel.OneSidedWork;
import org.nccl4j.device.kernel.WindowWork;
import org.nccl4j.device.support.CloseAll;
import org.nccl4j.device.symmetric.SymmetricSpace;
import org.nccl4j.device.symmetric.WindowView;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;

/** Turns direct and one-sided works into kernels and copies. */
public final class DirectPlans implements AutoCloseable {
  private static final int THREADS = 512; // NCCL4J_DIRECT_THREADS
  private static final int LINE_DATA = 8;
  private static final long LL_BLOCK_BYTES = 4 << 10;
  private static final long WINDOW_BLOCK_BYTES = 16 << 10;
  private static final int MOST_LL_BLOCKS = 64;

  /**
   * Bytes of a rank up to which the lines of all others at once matter less than a launch. An
   * estimate: no GPU with multicast was measured.
   */
  private static final long MOST_NVLS_IN_GROUPS = 4 << 10;

  private static final int MOST_WINDOW_BLOCKS = 64;
  private static final int ANY_CALL = 1; // no signature is so small

  /**
   * A kernel takes no more than this many multiprocessors (an H200 has 132), so that those of two
   * communicators find room beside each other: each may wait for ranks where the other came first.
   */
  private static final int MOST_PROCESSORS = 64;

  /**
   * From here on, bytes of all ranks, blocks do not come before the kernel in front has ended: they
   * would keep as many multiprocessors again from other kernels, for less than a hundredth of the
   * time.
   */
  private static final long LEAST_APART = 32 << 20;

  /** The same for kernels that are not small, which would keep many. */
  private static final long LEAST_LARGE_APART = 4 << 20;

  private final PlanContext context;
  private final KernelCommunicatorSpec spec;
  private final CommunicatorMemory memory;
  private final SymmetricSpace space;
  private final DirectLayout layout;
  private final NvlsDirectPlans nvls;
  private volatile StreamBarrier streamMeeting;
  private final LineGroup group;
  private final CopyEngineOverlapPlan.Launches launches = new CopyEngineOverlapPlan.Launches();
  private InternalStreams sides; // null before the first
  private InternalStreams waitingSides;
  private InternalStreams givingSides;

  public DirectPlans(PlanContext context, SymmetricSpace space) {
    this.context = context;
    this.spec = context.spec();
    this.memory = context.memory();
    this.space = space;
    this.layout = DirectLayout.of(space.size());
    this.nvls = new NvlsDirectPlans(context.kernels(), spec.nvls(), space);
    this.group = new LineGroup(context, layout.lineBytes(), this::arguments);
  }

  public CudaPlan prepare(WindowWork work) {
    check(work);
    return switch (work.algorithm()) {
      case COPY_ENGINE ->
          isBeside(work) ? beside(work) : new RoundCopyPlan(copies(work), meeting(work));
      case COPY_ENGINE_BATCH -> new BatchCopyPlan(copies(work), new KernelMeeting(meeting(work)));
      case COPY_ENGINE_STREAM -> new BatchCopyPlan(copies(work), streamMeeting());
      default -> kernel(work);
    };
  }

  /** The meeting of one plan. */
  private record KernelMeeting(CudaKernelPlan kernel) implements BatchCopyPlan.Meeting {
    @Override
    public void launch(long send, long recv, GpuStream stream, boolean captured) {
      kernel.launch(send, recv, stream);
    }

    @Override
    public void discard() {
      kernel.discard();
    }

    @Override
    public int blocks() {
      return kernel.blocks();
    }
  }

  /** Between two ranks copy engines have a kernel beside them. */
  private boolean isBeside(WindowWork work) {
    return space.size() == 2 && !work.operation().isRooted();
  }

  private CopyEngineOverlapPlan beside(WindowWork work) {
    if (waitingSides == null) {
      waitingSides = new InternalStreams(context.gpu(), GpuStream::waiting);
    }
    return new CopyEngineOverlapPlan(
        move(work, waitingSides),
        this::givingSides,
        launches,
        blocks -> besideKernel(work, blocks),
        layout.engine());
  }

  private InternalStreams givingSides() {
    if (givingSides == null) {
      givingSides = new InternalStreams(context.gpu(), GpuStream::waiting);
    }
    return givingSides;
  }

  private CudaKernelPlan besideKernel(WindowWork work, int blocks) {
    Offheap arguments = arguments(BesideArguments.SIZE);
    put(arguments, work);
    return new CudaKernelPlan(
        context,
        arguments,
        context.kernels().direct(work.operation().reduces(), work.type(), "nccl4j_direct_beside"),
        new CudaKernelPlan.Shape(blocks, THREADS, early(work, blocks)),
        needs(work));
  }

  private CopyPlan.Move copies(WindowWork work) {
    if (sides == null) {
      sides = new InternalStreams(context.gpu());
    }
    return move(work, sides);
  }

  private CopyPlan.Move move(WindowWork work, InternalStreams of) {
    return new CopyPlan.Move(context, work, space, of, needs(work));
  }

  /** One for all plans: the ranks' meetings have one order. */
  private StreamBarrier streamMeeting() {
    if (streamMeeting == null) {
      streamMeeting =
          new StreamBarrier(context.gpu(), spec, space, layout.arrivals(), meetingOfAny());
    }
    return streamMeeting;
  }

  /** Why a wait of a stream has lasted too long, or null. Any thread. */
  public String stall() {
    StreamBarrier made = streamMeeting;
    return made == null ? null : made.stall();
  }

  /** Ends what waits without a kernel, for good. Any thread. */
  public void release() {
    StreamBarrier made = streamMeeting;
    if (made != null) {
      made.release();
    }
  }

  @Override
  public void close() {
    CloseAll all = new CloseAll();
    if (streamMeeting != null) {
      all.take(streamMeeting::close);
    }
    for (InternalStreams streams : new InternalStreams[] {sides, waitingSides, givingSides}) {
      if (streams != null) {
        all.take(streams::close);
      }
    }
    all.end();
  }

  private void check(WindowWork work) {
    Operation operation = work.operation();
    boolean lines = work.algorithm().isLines();
    boolean known =
        switch (work.algorithm()) {
          case DIRECT_LL, DIRECT_LL128 -> true;
          case DIRECT_ONE_SHOT -> operation == Operation.REDUCE || !operation.isRooted();
          case DIRECT_TWO_SHOT -> operation == Operation.ALL_REDUCE;
          case COPY_ENGINE -> !operation.reduces() || isBeside(work);
          case COPY_ENGINE_BATCH, COPY_ENGINE_STREAM -> !operation.reduces();
          case DIRECT_NVLS, DIRECT_NVLS_LL -> spec.nvls() != null;
          default -> false;
        };
    long bytes = work.count() * work.type().bytes();
    if (!known
        || space.size() > DirectLayout.RANKS
        || (lines && bytes > layout.lineData(work.algorithm()))) {
      throw new InvalidUsageException(
          ErrorId.UNSUPPORTED,
          "%s of %d bytes by %s among %d ranks on %s"
              .formatted(operation, bytes, work.algorithm().label(), space.size(), context.gpu()),
          "leave NCCL_ALGO to the library for this operation");
    }
    if (work.algorithm().isMulticast()) {
      nvls.check(work);
    }
  }

  private CudaKernelPlan kernel(WindowWork work) {
    long bytes = work.count() * work.type().bytes();
    boolean multicast = work.algorithm().isMulticast();
    Offheap arguments = arguments(multicast ? NvlsDirectArguments.SIZE : DirectArguments.SIZE);
    put(arguments, work);
    if (multicast) {
      nvls.put(arguments, work);
    }
    if (work.algorithm() == Algorithm.DIRECT_LL128) {
      arguments
          .putLong(DirectArguments.LINES, layout.groups())
          .putLong(DirectArguments.LINE_BYTES, layout.groupBytes());
    }
    int blocks = work.blocks() > 0 ? work.blocks() : work.limit(blocks(work, bytes));
    blocks = Math.min(DirectLayout.BLOCKS, Math.min(MOST_PROCESSORS * together(work), blocks));
    CudaKernelPlan.Shape shape =
        new CudaKernelPlan.Shape(blocks, threads(work, bytes), early(work, blocks), meets(work));
    long function = bytes == 0 ? 0 : multicast ? nvls.kernel(work) : kernelOf(work);
    return goesInGroups(work, bytes)
        ? new LinePlan(
            context, arguments, function, needs(work), group, lineWork(work, bytes, shape))
        : new CudaKernelPlan(context, arguments, function, shape, needs(work));
  }

  /**
   * True if a kernel of several operations may have this one. That kernel stores lines to one rank
   * after the other, also where an operation alone would store them to all at once.
   */
  private static boolean goesInGroups(WindowWork work, long bytes) {
    return bytes > 0
        && (work.algorithm() == Algorithm.DIRECT_LL
            || (work.algorithm() == Algorithm.DIRECT_NVLS_LL && bytes <= MOST_NVLS_IN_GROUPS));
  }

  private LinePlan.Work lineWork(WindowWork work, long bytes, CudaKernelPlan.Shape shape) {
    return new LinePlan.Work(
        function(work, "nccl4j_direct_ll_group"),
        work.operation().ordinal(),
        work.op().ordinal(),
        work.root(),
        bytes,
        work.signature(),
        shape,
        work.mostBlocks());
  }

  private long kernelOf(WindowWork work) {
    return function(
        work,
        switch (work.algorithm()) {
          case DIRECT_LL -> "nccl4j_direct_ll";
          case DIRECT_LL128 -> "nccl4j_direct_ll128";
          default -> "nccl4j_direct_window";
        });
  }

  private long function(WindowWork work, String name) {
    return context.kernels().direct(work.operation().reduces(), work.type(), name);
  }

  /** Blocks where the planner leaves it to the device. */
  private int blocks(WindowWork work, long bytes) {
    if (work.algorithm().isLines()) {
      return (int) Math.max(1, Math.min(MOST_LL_BLOCKS, bytes / LL_BLOCK_BYTES));
    }
    boolean split =
        work.operation() == Operation.ALL_REDUCE && work.algorithm() != Algorithm.DIRECT_ONE_SHOT;
    long share = split ? bytes / space.size() : bytes;
    int most = work.algorithm().isMulticast() ? nvls.mostBlocks() : MOST_WINDOW_BLOCKS;
    return (int) Math.max(1, Math.min(most, share / WINDOW_BLOCK_BYTES));
  }

  /**
   * Returns the number of blocks per processor, as in the launch bounds in direct.cu and nvls.cu.
   */
  private static int together(WindowWork work) {
    boolean small =
        (work.algorithm().isLines() && !work.algorithm().isMulticast())
            || (!work.operation().reduces() && work.algorithm() != Algorithm.COPY_ENGINE);
    return small && !work.algorithm().isMulticast() ? 2 : 1;
  }

  /** The same for a kernel that may begin before the one in front has ended, else 0. */
  private int early(WindowWork work, int blocks) {
    int together = together(work);
    boolean small = CudaKernelPlan.Shape.isOnFewProcessors(blocks, together);
    long whole = work.count() * work.type().bytes() * work.operation().wholes(space.size());
    long least = small ? LEAST_APART : LEAST_LARGE_APART;
    return work.apart() || whole >= least ? 0 : together;
  }

  /** True for kernels with a barrier at their begin, or lines from all other ranks. */
  private static boolean meets(WindowWork work) {
    return switch (work.algorithm()) {
      case DIRECT_LL, DIRECT_LL128 -> !work.operation().isRooted();
      case DIRECT_ONE_SHOT, DIRECT_TWO_SHOT -> true;
      default -> false;
    };
  }

  private static int threads(WindowWork work, long bytes) {
    if (!work.algorithm().isLines()) {
      return THREADS;
    }
    long ofWarp =
        work.algorithm() == Algorithm.DIRECT_LL128 ? DirectLayout.GROUP_DATA : 32 * LINE_DATA;
    return (int) Math.min(THREADS, Math.max(1, (bytes + ofWarp - 1) / ofWarp) * 32);
  }

  private CudaKernelPlan.Needs needs(WindowWork work) {
    long bytes = work.count() * work.type().bytes();
    boolean root = work.root() == spec.rank();
    return CudaKernelPlan.Needs.of(work.operation(), root, space.size(), bytes);
  }

  /**
   * Allocates arguments and fills in the fields common to a communicator's kernels. Ranks are
   * places in the team.
   */
  private Offheap arguments(int size) {
    Offheap arguments = context.offheap().take(size);
    memory.putCommunicator(arguments);
    return arguments
        .putInt(KernelLayout.RANK, space.place())
        .putInt(KernelLayout.N_RANKS, space.size())
        .putLong(DirectArguments.STRIDE, space.stride())
        .putLong(DirectArguments.RESOURCES, space.resources().peers().get(0).address())
        .putLong(DirectArguments.FLAGS, layout.flags())
        .putLong(DirectArguments.EPOCH, layout.epoch())
        .putLong(DirectArguments.LINES, layout.lines())
        .putLong(DirectArguments.LINE_BYTES, layout.lineBytes())
        .putLong(DirectArguments.COUNTS, layout.counts());
  }

  /** Writes a work into the kernel's arguments. */
  private static void put(Offheap arguments, WindowWork work) {
    put(arguments, DirectArguments.SEND_FLAT, work.send());
    put(arguments, DirectArguments.RECV_FLAT, work.recv());
    arguments
        .putLong(DirectArguments.BYTES, work.count() * work.type().bytes())
        .putInt(DirectArguments.OPERATION, work.operation().ordinal())
        .putInt(DirectArguments.OP, work.op().ordinal())
        .putInt(DirectArguments.ROOT, work.root())
        .putInt(DirectArguments.TWO_SHOT, work.algorithm() == Algorithm.DIRECT_TWO_SHOT ? 1 : 0)
        .putInt(KernelLayout.SIGNATURE, work.signature())
        .putInt(KernelLayout.FLAGS, alike(work));
  }

  /** Returns the buffers that must lie at the same place of all ranks' windows. */
  private static int alike(WindowWork work) {
    return (work.algorithm().needsSend(work.operation()) ? KernelLayout.ALIKE_SEND : 0)
        | (work.algorithm().needsRecv(work.operation()) ? KernelLayout.ALIKE_RECV : 0);
  }

  private static void put(Offheap arguments, int offset, WindowView window) {
    arguments.putLong(
        offset, window == null ? 0 : window.peers().get(0).address() - window.address());
  }

  /** All ranks meet for a call: a kernel of its own. */
  private CudaKernelPlan meeting(WindowWork work) {
    Offheap arguments = arguments(DirectArguments.SIZE);
    put(arguments, work);
    return small("nccl4j_direct_meet", arguments);
  }

  /** The same for calls of all kinds, which so are not compared. */
  private CudaKernelPlan meetingOfAny() {
    Offheap arguments = arguments(DirectArguments.SIZE);
    arguments.putInt(KernelLayout.SIGNATURE, ANY_CALL);
    return small("nccl4j_direct_meet", arguments);
  }

  private CudaKernelPlan small(String name, Offheap arguments) {
    long function = context.kernels().direct(false, null, name);
    return new CudaKernelPlan(
        context,
        arguments,
        function,
        new CudaKernelPlan.Shape(1, (space.size() + 31) / 32 * 32, 1), // a thread a rank
        new CudaKernelPlan.Needs(0, 0));
  }

  public CudaPlan prepare(OneSidedWork work) {
    if (work instanceof OneSidedWork.Put put) {
      Offheap arguments = arguments(DirectArguments.SIZE);
      arguments.putInt(DirectArguments.ROOT, put.place());
      return new PutPlan(context, put, small("nccl4j_direct_signal", arguments));
    }
    if (!(work instanceof OneSidedWork.Wait wait) || !wait.remote().isEmpty()) {
      throw new InvalidUsageException(
          ErrorId.UNSUPPORTED,
          "a one-sided operation of a GPU is for a rank outside its team",
          "report this as a defect");
    }
    Offheap arguments = arguments(AwaitArguments.SIZE);
    arguments.putInt(DirectArguments.ROOT, space.first()); // for reports
    for (OneSidedWork.Awaited from : wait.awaited()) {
      arguments.putInt(AwaitArguments.AWAITED + 4 * from.place(), from.signals());
    }
    return small("nccl4j_direct_wait", arguments);
  }
}
