package org.nccl4j.device.cuda.window;

import java.util.ArrayList;
import java.util.List;
import java.util.function.IntFunction;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.cuda.plan.CudaKernelPlan;
import org.nccl4j.device.cuda.plan.CudaPlan;
import org.nccl4j.device.cuda.plan.PlanContext;
import org.nccl4j.device.cuda.plan.WorkGroup;

/**
 * Operations of a group in lines, of one type, that share a half: each has lines of its own there,
 * so that none waits for another. Their kernels have the same number among the communicator's
 * direct kernels, which the last one ends.
 */
final class LineGroup implements WorkGroup {
  /** Lines of an operation begin at multiples of so many bytes. */
  private static final int LINES_APART = 128;

  private static final int LINE_DATA = 8;
  private static final int LINE_BYTES = 16;

  /** Parts of all operations of a kernel, if these are not more: as many blocks as one has. */
  private static final int MOST_PARTS = 64;

  private final PlanContext context;
  private final long lineBytes;
  private final IntFunction<Offheap> arguments;
  private final List<LinePlan.Work> works = new ArrayList<>();
  private final long[] lines = new long[DirectGroupArguments.MOST_WORKS];
  private long taken;

  /** The last kernel, its form and its arguments; null before the first. */
  private CudaKernelPlan plan;

  private long function;
  private CudaKernelPlan.Shape shape;
  private Offheap filled;

  /**
   * Groups of a communicator.
   *
   * @param lineBytes of a rank's part of a half
   * @param arguments of a size, with what is the same for all kernels of the communicator
   */
  LineGroup(PlanContext context, long lineBytes, IntFunction<Offheap> arguments) {
    this.context = context;
    this.lineBytes = lineBytes;
    this.arguments = arguments;
  }

  @Override
  public boolean add(CudaPlan added) {
    LinePlan.Work work = ((LinePlan) added).work();
    long bytes = (work.bytes() + LINE_DATA - 1) / LINE_DATA * LINE_BYTES;
    if (!works.isEmpty()
        && (works.size() == DirectGroupArguments.MOST_WORKS
            || works.get(0).kernel() != work.kernel()
            || taken + bytes > lineBytes)) {
      return false;
    }
    lines[works.size()] = taken;
    taken += (bytes + LINES_APART - 1) / LINES_APART * LINES_APART;
    works.add(work);
    return true;
  }

  @Override
  public CudaPlan plan(int from, int to, long[] sends, long[] recvs) {
    int wanted = 0;
    for (int w = from; w < to; w++) {
      wanted += works.get(w).shape().blocks();
    }
    int parts = 0;
    for (int w = from; w < to; w++) {
      parts += parts(w, wanted, to - from);
    }
    begin(from, to, parts);
    int first = 0;
    for (int w = from; w < to; w++) {
      int own = parts(w, wanted, to - from);
      put(w - from, w, sends[w], recvs[w], first, own);
      first += own;
    }
    filled
        .putInt(DirectGroupArguments.N_PARTS, parts)
        .putInt(DirectGroupArguments.ENDS, to == works.size() ? 1 : 0);
    return plan;
  }

  /** Parts of an operation: the blocks that it would have alone, or its share of all blocks. */
  private int parts(int number, int wanted, int operations) {
    int blocks = works.get(number).shape().blocks();
    int room = MOST_PARTS - operations;
    return wanted <= MOST_PARTS ? blocks : Math.max(1, blocks * room / wanted);
  }

  /** Has the kernel in the form that some operations need. */
  private void begin(int from, int to, int parts) {
    int threads = 0;
    int together = Integer.MAX_VALUE;
    int most = 0;
    for (int w = from; w < to; w++) {
      LinePlan.Work work = works.get(w);
      threads = Math.max(threads, work.shape().threads());
      together = Math.min(together, work.shape().together());
      most = Math.max(most, work.mostBlocks() == 0 ? parts : work.mostBlocks());
    }
    int blocks = Math.min(parts, most);
    long kernel = works.get(from).kernel();
    if (plan != null
        && function == kernel
        && shape.blocks() == blocks
        && shape.threads() == threads
        && shape.together() == together) {
      return;
    }
    if (plan != null) {
      plan.discard();
    }
    function = kernel;
    shape = new CudaKernelPlan.Shape(blocks, threads, together);
    filled = arguments.apply(DirectGroupArguments.SIZE);
    plan = new CudaKernelPlan(context, filled, function, shape, new CudaKernelPlan.Needs(0, 0));
  }

  /** Writes an operation into the arguments. */
  private void put(int place, int number, long send, long recv, int firstPart, int parts) {
    LinePlan.Work work = works.get(number);
    int at = DirectGroupArguments.WORKS + place * DirectGroupArguments.WORK_SIZE;
    filled
        .putLong(at + DirectGroupArguments.WORK_SEND, send)
        .putLong(at + DirectGroupArguments.WORK_RECV, recv)
        .putLong(at + DirectGroupArguments.WORK_BYTES, work.bytes())
        .putLong(at + DirectGroupArguments.WORK_LINES, lines[number])
        .putInt(at + DirectGroupArguments.WORK_OP, work.op())
        .putInt(at + DirectGroupArguments.WORK_SIGNATURE, work.signature());
    filled
        .bytes()
        .putShort(at + DirectGroupArguments.WORK_OPERATION, (short) work.operation())
        .putShort(at + DirectGroupArguments.WORK_ROOT, (short) work.root())
        .putShort(at + DirectGroupArguments.WORK_FIRST_PART, (short) firstPart)
        .putShort(at + DirectGroupArguments.WORK_N_PARTS, (short) parts);
    for (int part = firstPart; part < firstPart + parts; part++) {
      filled.bytes().put(DirectGroupArguments.WORK_OF + part, (byte) place);
    }
  }

  @Override
  public void clear() {
    works.clear();
    taken = 0;
  }
}
