package org.nccl4j.device.cuda.copy;

import java.util.function.IntFunction;
import java.util.function.Supplier;
import org.nccl4j.device.cuda.driver.CudaLibrary;
import org.nccl4j.device.cuda.driver.DriverLibrary;
import org.nccl4j.device.cuda.driver.Gpu;
import org.nccl4j.device.cuda.plan.CudaKernelPlan;
import org.nccl4j.device.cuda.plan.CudaPlan;
import org.nccl4j.device.cuda.plan.PlanContext;
import org.nccl4j.device.cuda.stream.GpuStream;
import org.nccl4j.device.cuda.stream.InternalStreams;
import org.nccl4j.device.kernel.WindowWork;
import org.nccl4j.device.symmetric.SymmetricSpace;
import org.nccl4j.operation.Operation;

/**
 * An operation of two ranks by copy engines and a kernel beside them: {@code direct_beside.cuh}.
 * The kernel goes into the user's stream, the copies into one beside it, where they wait for the
 * kernel's word. Of few blocks of an all-reduce engines also bring the sums to the other rank, in a
 * second stream. While the stream is captured, whose graph would write the same words again, what
 * only moves data is moved between two halves of the kernel, by engines or, if it is little, by a
 * kernel of more blocks, and what reduces is done by the kernel alone; the other rank need not
 * capture too. Kernels do all likewise where all streams share one queue to the GPU: the other rank
 * may wait for work behind the copies' wait there. Launched by one thread at a time.
 */
public final class CopyEngineOverlapPlan implements CudaPlan {
  private static final int MOVING_BLOCKS = 32;

  /** Blocks that copy this rank's own data of a large all-gather as fast as engines the other's. */
  private static final int MOVING_BLOCKS_OF_LARGE = 10;

  private static final long LARGE_PART = 64 << 20;

  /** Blocks that combine a reduce-scatter's copies within 2 % of the least time. */
  private static final int SCATTERING_BLOCKS = 32;

  private static final int SCATTERING_BLOCKS_OF_LARGE = 48;
  private static final long LARGE_SCATTER = 256 << 20;

  private static final int REDUCING_BLOCKS = 64;

  /**
   * So many blocks of an all-reduce store sums to both ranks. Of fewer, engines give them to the
   * other rank: that is a tenth slower, and six blocks sum as fast as copies come.
   */
  private static final int LEAST_STORING_BLOCKS = 32;

  private static final int BEGIN = 1; // BESIDE_BEGIN
  private static final int END = 2;
  private static final int MOVE = 4;

  /** From here on engines are faster in a graph, for all that they begin late there. */
  private static final long LEAST_COPIED_IN_GRAPH = 48 << 20;

  private static final int BLOCKS_IN_GRAPH = 128;

  /** Copies of a launch, of those that have numbers: {@link BesideWords#COPIES}. */
  private static final int MOST_CHUNKS = 32;

  private static final long LEAST_CHUNK = 16 << 20;

  /** Bytes of the largest and smallest copies whose sums engines give; a copy begins late. */
  private static final long MOST_GIVEN = 32 << 20;

  private static final long LEAST_GIVEN = 3 << 20;

  /**
   * Most bytes that an all-reduce's kernel loads from the other rank: the links' idle time as a
   * copy begins.
   */
  private static final long MOST_BESIDE = 4 << 20;

  /**
   * Most bytes that an all-gather's kernel moves while the copies begin and until their end is
   * seen.
   */
  private static final long MOST_HEAD = 6 << 20;

  private static final long MOST_TAIL = 3 << 20;

  /**
   * A reduce-scatter's kernel moves this and three eighths, in units, and at most a half; with
   * fewer movers as much less, since each of them moves so much while the engines move the rest.
   */
  private static final long BESIDE_SCATTER = 4 << 20;

  private static final long UNIT = 256 << 10;
  static final int MOVERS = 20;
  private static final long LEAST_LAST_CHUNK = 3 << 20;
  private static final long MOST_LAST_CHUNK = 6 << 20;

  /**
   * Fewer blocks than these combine a reduce-scatter's copies no faster than they come, and so must
   * not wait long for the first, and move little.
   */
  private static final int LEAST_FAST_BLOCKS = 24;

  private static final long MOST_OF_FEW = 16 << 20;

  private final PlanContext owner;
  private final Operation operation;
  private final InternalStreams sides;
  private final Supplier<InternalStreams> giving;
  private final boolean gives; // engines bring an all-reduce's sums to the other rank
  private final boolean byKernels;
  private final Launches launches;
  private final CudaKernelPlan kernel;

  /** Kernel plan that moves all data of a data movement in a graph; else null. */
  private final CudaKernelPlan mover;

  private final CopyAddresses routes;
  private final Moved moved;

  /** Of this rank's part: what the other rank's engines bring, and this rank's give back summed. */
  private final Moved brought;

  private final int other;
  private final int rank;
  private final long bytes;

  /**
   * Added to the addresses of this rank's buffers to get the source and the target of the other's
   * copies.
   */
  private final long sendOffset;

  private final long recvOffset;

  /** The same for the sums of this rank's part. */
  private final long sumOffset;

  private final long sumRecvOffset;

  /** Addresses of the words here and there. */
  private final long here;

  private final long there;

  /** Launches of a communicator that had engines, counted over all plans. */
  public static final class Launches {
    private int last;

    private int next() {
      last = last == -1 ? 1 : last + 1; // 0 stands for none
      return last;
    }
  }

  /**
   * The share of the copy engines in a rank's data, and the share of the kernel; engines and kernel
   * both compute it.
   *
   * @param bytes that engines move, the first
   * @param chunk of the smallest copy
   * @param most of the largest; if that is not the smallest, copies become smaller
   * @param head what the kernel of an all-gather moves at its begin
   * @param movers blocks of a reduce-scatter that move units, at most half of them
   */
  private record Moved(long bytes, long chunk, long most, long head, int movers) {
    static Moved of(Operation operation, long all, int blocks) {
      return switch (operation) {
        case REDUCE_SCATTER -> ofScatter(all, blocks);
        case ALL_REDUCE -> {
          long bytes = (all - Math.min(MOST_BESIDE, all / 4)) & -128;
          boolean gives = blocks < LEAST_STORING_BLOCKS;
          long most = Math.max(gives ? MOST_GIVEN : LEAST_CHUNK, even(bytes));
          yield new Moved(bytes, gives ? LEAST_GIVEN : most, most, 0, 0);
        }
        default -> {
          long head = Math.min(MOST_HEAD, all / 4) & -128;
          long bytes = (all - head - Math.min(MOST_TAIL, all / 8)) & -128;
          yield new Moved(bytes, bytes, bytes, head, 0);
        }
      };
    }

    private static Moved ofScatter(long all, int blocks) {
      if (blocks < 2) {
        return new Moved(
            0, 1, 1, 0, 1); // no block to combine while one moves: the kernel loads all
      }
      boolean few = blocks < LEAST_FAST_BLOCKS;
      // The others combine.
      int movers = Math.max(1, Math.min(MOVERS, blocks / (few ? 6 : 3)));
      long beside = Math.min(all / 2, (all * 3 / 8 + BESIDE_SCATTER) * movers / MOVERS);
      long chunk = Math.max(LEAST_LAST_CHUNK, Math.min(MOST_LAST_CHUNK, all / 6));
      long bytes = (all - beside) & -128;
      long most = few ? Math.max(MOST_OF_FEW, even(bytes)) : Math.max(bytes, 2 * chunk);
      return new Moved(bytes, chunk, most, 0, movers);
    }

    /** Bytes of each of the most copies. */
    private static long even(long bytes) {
      return (bytes / MOST_CHUNKS + 127) & -128;
    }

    /** Bytes of the copy that begins somewhere: copyBytes in the kernel. */
    long next(long at) {
      long rest = bytes - at;
      if (most <= chunk) {
        return Math.min(chunk, rest);
      }
      return rest < 2 * chunk ? rest : Math.min(most, rest / 2 & -128);
    }
  }

  /**
   * A plan.
   *
   * @param kernels makes nccl4j_direct_beside of so many blocks, with the arguments that all direct
   *     kernels have
   * @param giving the streams that give sums to the other rank, made when they are needed
   * @param words offset of the words in the library's own window
   */
  public CopyEngineOverlapPlan(
      CopyPlan.Move move,
      Supplier<InternalStreams> giving,
      Launches launches,
      IntFunction<CudaKernelPlan> kernels,
      long words) {
    SymmetricSpace space = move.space();
    WindowWork work = move.work();
    this.owner = move.owner();
    this.operation = work.operation();
    this.sides = move.sides();
    this.giving = giving;
    this.launches = launches;
    this.routes = new CopyAddresses(work, space);
    this.rank = space.place();
    this.other = 1 - rank;
    this.bytes = work.count() * work.type().bytes();
    boolean reduces = operation.reduces();
    int blocks = work.limit(blocks(operation, bytes));
    this.gives = operation == Operation.ALL_REDUCE && blocks < LEAST_STORING_BLOCKS;
    this.kernel = kernels.apply(blocks);
    this.byKernels = owner.hasOneQueue();
    this.mover =
        reduces || (bytes >= LEAST_COPIED_IN_GRAPH && !byKernels)
            ? null
            : kernels.apply(work.limit(BLOCKS_IN_GRAPH));
    this.moved = Moved.of(operation, part(other), blocks);
    boolean parted = operation == Operation.ALL_REDUCE;
    this.sendOffset = parted ? first(other) : other * bytes;
    long flat = work.recv().peers().get(other).address() - work.recv().address();
    this.recvOffset = flat + (parted ? first(other) : 0);
    this.sumOffset = first(rank);
    this.sumRecvOffset = flat + first(rank);
    this.here = space.resources().peers().get(rank).address() + words;
    this.there = space.resources().peers().get(other).address() + words;
    this.brought = Moved.of(operation, part(rank), blocks);
    kernel
        .arguments()
        .putLong(BesideArguments.ENGINE, words)
        .putLong(BesideArguments.ENGINE_BYTES, brought.bytes)
        .putLong(BesideArguments.CHUNK, brought.chunk)
        .putLong(BesideArguments.MOST, brought.most)
        .putLong(BesideArguments.HEAD, brought.head)
        .putLong(BesideArguments.UNIT, UNIT)
        .putInt(BesideArguments.MOVERS, brought.movers)
        .putInt(BesideArguments.GIVES, gives ? 1 : 0);
  }

  private static int blocks(Operation operation, long bytes) {
    return switch (operation) {
      case ALL_REDUCE -> REDUCING_BLOCKS;
      case REDUCE_SCATTER -> bytes < LARGE_SCATTER ? SCATTERING_BLOCKS : SCATTERING_BLOCKS_OF_LARGE;
      default -> bytes < LARGE_PART ? MOVING_BLOCKS : MOVING_BLOCKS_OF_LARGE;
    };
  }

  /** Returns the offset of a rank's part of an all-reduce, as in the kernel. */
  private long first(int of) {
    return of == 0 ? 0 : Math.min(bytes, (bytes / 2 + 15) / 16 * 16);
  }

  /** Bytes that the other rank has for this one. */
  private long part(int of) {
    return operation != Operation.ALL_REDUCE ? bytes : of == 0 ? first(1) : bytes - first(1);
  }

  @Override
  public PlanContext owner() {
    return owner;
  }

  @Override
  public boolean isEmpty() {
    return bytes == 0;
  }

  @Override
  public long sendBytes() {
    return kernel.sendBytes();
  }

  @Override
  public long recvBytes() {
    return kernel.recvBytes();
  }

  @Override
  public int blocks() {
    return kernel.blocks();
  }

  @Override
  public void launch(long send, long recv, GpuStream stream) {
    boolean apart = byKernels || CudaLibrary.isCapturing(stream.handle(), owner.gpu());
    if (apart && !operation.reduces()) {
      launch(kernel, 0, BEGIN, send, recv, stream);
      if (mover != null) {
        launch(mover, 0, MOVE, send, recv, stream);
      } else {
        copyInGraph(send, recv, stream);
      }
      launch(kernel, 0, END, send, recv, stream);
    } else if (apart || moved.bytes == 0) {
      launch(kernel, 0, BEGIN | END, send, recv, stream);
    } else {
      int number = launches.next();
      launch(kernel, number, BEGIN | END, send, recv, stream);
      copy(number, send, recv);
      if (gives) {
        give(number, recv);
      }
    }
  }

  @Override
  public void discard() {
    kernel.discard();
    if (mover != null) {
      mover.discard();
    }
  }

  private static void launch(
      CudaKernelPlan part, int number, int phases, long send, long recv, GpuStream stream) {
    part.arguments().putInt(BesideArguments.NUMBER, number).putInt(BesideArguments.PHASES, phases);
    part.launch(send, recv, stream);
  }

  private void copyInGraph(long send, long recv, GpuStream stream) {
    InternalStreams.Side side = sides.of(stream, /* inGraph= */ true);
    side.part(stream);
    copy(routes.target(recv, rank), routes.source(send, rank), bytes, side.handle());
    copy(routes.target(recv, other), routes.source(send, other), bytes, stream.handle());
    side.join(stream);
  }

  private void copy(int number, long send, long recv) {
    Gpu gpu = owner.gpu();
    long stream = sides.eager().handle();
    boolean reduces = operation.reduces();
    long source = reduces ? send + sendOffset : routes.source(send, other);
    long target = reduces ? recv + recvOffset : routes.target(recv, other);
    DriverLibrary.streamWait(stream, here + BesideWords.GO, number, false, gpu);
    int chunks = 0;
    long size;
    for (long at = 0; at < moved.bytes; at += size) {
      size = moved.next(at);
      chunks++;
      copy(target + at, source + at, size, stream);
      if (reduces) {
        DriverLibrary.streamWrite(
            stream, there + BesideWords.CAME, BesideWords.COPIES * number + chunks, false, gpu);
      }
    }
    if (operation != Operation.ALL_REDUCE) {
      DriverLibrary.streamWrite(stream, here + BesideWords.ENDED, number, false, gpu);
    }
  }

  /** Copies sums to the other rank, as the kernel tells of them. */
  private void give(int number, long recv) {
    Gpu gpu = owner.gpu();
    long stream = giving.get().eager().handle();
    // From here on the word of sums is this launch's.
    DriverLibrary.streamWait(stream, here + BesideWords.GO, number, false, gpu);
    int chunks = 0;
    long size;
    for (long at = 0; at < brought.bytes; at += size) {
      size = brought.next(at);
      chunks++;
      DriverLibrary.streamWait(
          stream, here + BesideWords.SUMMED, BesideWords.COPIES * number + chunks, false, gpu);
      copy(recv + sumRecvOffset + at, recv + sumOffset + at, size, stream);
    }
    DriverLibrary.streamWrite(stream, there + BesideWords.GIVEN, number, false, gpu);
    DriverLibrary.streamWrite(stream, here + BesideWords.ENDED, number, false, gpu);
  }

  private void copy(long target, long source, long size, long stream) {
    if (target != source) {
      DriverLibrary.copyAsync(target, source, size, stream, owner.gpu());
    }
  }
}
