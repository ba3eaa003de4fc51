package org.nccl4j.device.cuda.plan;

import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.cuda.driver.DriverLibrary;
import org.nccl4j.device.cuda.stream.GpuStream;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.operation.Operation;

/**
 * A kernel with its arguments and launch configuration, all outside the heap and filled but for the
 * buffers and the stream. Owned by the thread that launches.
 */
public class CudaKernelPlan implements CudaPlan {
  private static final int ATTRIBUTE_BYTES = 72; // CUlaunchAttribute
  private static final int CONFIG_BYTES = 56; // CUlaunchConfig
  private static final int CONFIG_STREAM = 32;
  private static final int CONFIG_ATTRIBUTES = 40;
  private static final int CONFIG_ATTRIBUTE_COUNT = 48;
  private static final int PARAMETERS = CONFIG_BYTES + 3 * ATTRIBUTE_BYTES; // behind the config
  private static final int MEM_SYNC_DOMAIN = 10; // CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN
  private static final int CLUSTER_DIMENSION = 4; // CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
  private static final int DOMAIN_REMOTE = 1;
  private static final int EARLY_START = 6; // ..._PROGRAMMATIC_STREAM_SERIALIZATION

  /**
   * A kernel admits the next one's blocks at once only if its own have at most this many threads,
   * or take few multiprocessors, and the next one is as small. Both then leave room for the kernels
   * of other communicators, for which the first may wait. On a GPU with few multiprocessors they
   * take no more than half.
   */
  private static final int MOST_SMALL_THREADS = 256;

  private static final int MOST_SMALL_PROCESSORS = 16;

  /** GPUs with this many multiprocessors have room for two kernels of any size. */
  private static final int MANY_PROCESSORS = 128;

  private final PlanContext owner;
  private Offheap arguments; // null once it is discarded
  private final Offheap config;
  private final PlanTables.Table table;
  private final long function; // 0: there is nothing to do
  private final int blocks;
  private final boolean admitsAtOnce;
  private final boolean isLargeAndEarly;
  private final int attributes;
  private final long sendBytes;
  private final long recvBytes;

  /** Most bytes that the launch's own send and receive buffers need. */
  public record Needs(long sendBytes, long recvBytes) {
    /**
     * The needs of an operation.
     *
     * @param root whether this rank is its root
     * @param bytes of count elements
     */
    public static Needs of(Operation operation, boolean root, int nRanks, long bytes) {
      return new Needs(
          operation.sendParts(nRanks, root) * bytes, operation.recvParts(nRanks, root) * bytes);
    }

    /** The needs of a collective on a rank. */
    public static Needs of(CollectiveWork work, int rank, int nRanks, long bytes) {
      return of(work.operation(), work.root() == rank, nRanks, bytes);
    }
  }

  /**
   * The kernel that a communicator launched last. What is captured comes behind what was captured
   * before it, and not in front of the next launch. Of the thread that launches.
   */
  public static final class Last {
    private long capture; // the last one's number
    private boolean captures; // the launch under way is in it
    private boolean admitsInCapture;
    private boolean admits;

    /**
     * Tells where the next launch goes.
     *
     * @param into the number of a capture; 0 for none
     */
    public void goesInto(long into) {
      captures = into != 0;
      if (captures && into != capture) {
        capture = into;
        admitsInCapture = true; // the kernel in front of it is not known
      }
    }

    private boolean admitsAtOnce() {
      return captures ? admitsInCapture : admits;
    }

    private void launched(boolean admitsAtOnce) {
      if (captures) {
        admitsInCapture = admitsAtOnce;
      } else {
        admits = admitsAtOnce;
      }
    }
  }

  /**
   * Blocks and threads of a launch.
   *
   * @param together blocks for which a multiprocessor has room at least; 0 for a kernel whose
   *     blocks do not start before the one in front has ended, nor the next one's before it has
   * @param meets whether each block learns that those of the other ranks run, before its last wait
   */
  public record Shape(int blocks, int threads, int together, boolean meets) {
    /** The shape of a kernel whose blocks do not all learn of the others. */
    public Shape(int blocks, int threads, int together) {
      this(blocks, threads, together, /* meets= */ false);
    }

    /** True if its blocks may start beside the kernel in front, if that one is small too. */
    public boolean isSmall(int multiprocessors) {
      int most = multiprocessors < ConnectionLayout.CHANNELS ? multiprocessors / 4 : blocks;
      return together > 0
          && blocks <= most * together
          && (threads <= MOST_SMALL_THREADS || isOnFewProcessors(blocks, together));
    }

    /** True if blocks need few multiprocessors, as many at a time on each as there is room for. */
    public static boolean isOnFewProcessors(int blocks, int together) {
      return blocks <= MOST_SMALL_PROCESSORS * together;
    }

    /** True if its blocks may start beside a kernel in front that is sure to end. */
    public boolean comesEarly(int multiprocessors) {
      return isSmall(multiprocessors) || (together > 0 && multiprocessors >= MANY_PROCESSORS);
    }

    /** When the next kernel's blocks may start: of {@link KernelLayout#FLAGS}. */
    public int admits(int multiprocessors) {
      return isSmall(multiprocessors)
          ? KernelLayout.ADMITS_AT_ONCE
          : together > 0 && meets ? KernelLayout.ADMITS_WHEN_MET : 0;
    }
  }

  /**
   * A plan without a table.
   *
   * @param arguments of {@link PlanContext#offheap}, the plan's from now on
   */
  public CudaKernelPlan(
      PlanContext owner, Offheap arguments, long function, Shape shape, Needs needs) {
    this(owner, arguments, null, function, shape, needs);
  }

  /**
   * A plan.
   *
   * @param table that the arguments refer to, the plan's from now on; null if there is none
   */
  public CudaKernelPlan(
      PlanContext owner,
      Offheap arguments,
      PlanTables.Table table,
      long function,
      Shape shape,
      Needs needs) {
    this.owner = owner;
    this.arguments = arguments;
    this.table = table;
    this.config = owner.offheap().take(PARAMETERS + 8);
    this.function = function;
    this.blocks = shape.blocks;
    this.sendBytes = needs.sendBytes;
    this.recvBytes = needs.recvBytes;
    int processors = owner.gpu().multiprocessors();
    boolean waits =
        owner.gpu().computeCapability() >= 90
            && function != 0
            && owner.kernels().awaitsPredecessor(function);
    boolean early = waits && shape.comesEarly(processors);
    int admits = waits ? shape.admits(processors) : 0;
    this.admitsAtOnce = admits == KernelLayout.ADMITS_AT_ONCE;
    this.isLargeAndEarly = early && !shape.isSmall(processors);
    if (admits != 0) {
      arguments.putInt(KernelLayout.FLAGS, arguments.getInt(KernelLayout.FLAGS) | admits);
    }
    config.putLong(PARAMETERS, arguments.address());
    config.putInt(0, shape.blocks).putInt(4, 1).putInt(8, 1);
    config.putInt(12, shape.threads).putInt(16, 1).putInt(20, 1);
    if (owner.gpu().computeCapability() >= 90) {
      // Fences of these kernels then wait for their own stores only, not for those of kernels that
      // compute beside them.
      config.putInt(add(MEM_SYNC_DOMAIN), DOMAIN_REMOTE);
      int cluster = clusterBlocks(shape.blocks, owner.clusterBlocks());
      if (cluster > 1) {
        int value = add(CLUSTER_DIMENSION);
        config.putInt(value, cluster).putInt(value + 4, 1).putInt(value + 8, 1);
      }
      if (early) { // the last attribute, which a launch may leave out
        config.putInt(add(EARLY_START), 1);
      }
      config.putLong(CONFIG_ATTRIBUTES, config.address() + CONFIG_BYTES);
    }
    this.attributes = config.getInt(CONFIG_ATTRIBUTE_COUNT);
  }

  /** Adds a launch attribute; where its value goes. */
  private int add(int attribute) {
    int count = config.getInt(CONFIG_ATTRIBUTE_COUNT);
    config.putInt(CONFIG_ATTRIBUTE_COUNT, count + 1);
    int at = CONFIG_BYTES + count * ATTRIBUTE_BYTES;
    config.putInt(at, attribute);
    return at + 8;
  }

  /** The largest size of clusters, up to the one asked for, that divides a number of blocks. */
  public static int clusterBlocks(int blocks, int asked) {
    int cluster = Math.max(1, asked);
    while (blocks % cluster != 0) {
      cluster--;
    }
    return cluster;
  }

  @Override
  public PlanContext owner() {
    return owner;
  }

  /** Returns the kernel's arguments. */
  public Offheap arguments() {
    return arguments;
  }

  @Override
  public int blocks() {
    return function == 0 ? 0 : blocks;
  }

  @Override
  public boolean isEmpty() {
    return function == 0;
  }

  @Override
  public long sendBytes() {
    return sendBytes;
  }

  @Override
  public long recvBytes() {
    return recvBytes;
  }

  @Override
  public void launch(long send, long recv, GpuStream stream) {
    arguments.bytes().putLong(KernelLayout.SEND, send).putLong(KernelLayout.RECV, recv);
    config.bytes().putLong(CONFIG_STREAM, stream.handle());
    if (isLargeAndEarly) { // not beside a kernel that may wait for the room that it takes
      int left = owner.last().admitsAtOnce() ? 1 : 0;
      config.bytes().putInt(CONFIG_ATTRIBUTE_COUNT, attributes - left);
    }
    owner.last().launched(admitsAtOnce);
    if (table != null) {
      table.bring(stream);
    }
    DriverLibrary.launch(config.address(), function, config.address() + PARAMETERS, stream.gpu());
    if (table != null) {
      table.launched(stream);
    }
  }

  /** The driver has copied the arguments of launches under way; it reads the table later. */
  @Override
  public void discard() {
    if (arguments != null) {
      owner.offheap().give(arguments);
      owner.offheap().give(config);
      arguments = null;
      if (table != null) {
        table.discard();
      }
    }
  }

  @Override
  public String toString() {
    return "kernel 0x%x by ".formatted(function) + blocks + " blocks";
  }
}
