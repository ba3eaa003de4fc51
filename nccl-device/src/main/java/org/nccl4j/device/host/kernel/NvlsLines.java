package org.nccl4j.device.host.kernel;

import org.nccl4j.device.HotPath;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.host.reduce.Reduction;
import org.nccl4j.device.host.reduce.Reductions;
import org.nccl4j.device.kernel.DirectWork;
import org.nccl4j.device.kernel.Nvls;
import org.nccl4j.device.symmetric.SymmetricSpace;

/**
 * Small exchanges of all with all in one flight: each rank stores its data, as lines with flags,
 * into the library's own window of all ranks at once, and takes everybody's out of its own.
 *
 * <p>A rank writes into a half again two operations later; by then it has all lines of the
 * operation between, so every other rank has ended the one before. Owned by the thread that runs
 * the communicator's current kernel.
 */
final class NvlsLines {
  private final Nvls nvls;
  private final Waiter waiter;
  private final LineSlots slots;
  private final int self;
  private final MulticastAccess all;
  private final HostMemory own;
  private final HostMemory prepared;
  private final HostMemory sum;
  private final HostMemory next;
  private long operations;

  /**
   * The lines of a communicator.
   *
   * @param space with a window of its own that is reached by multicast
   * @param scratch of three times {@link LineSlots#DATA_BYTES}
   */
  NvlsLines(Nvls nvls, SymmetricSpace space, Waiter waiter, HostMemory scratch) {
    this.nvls = nvls;
    this.waiter = waiter;
    this.slots = new LineSlots(space.size());
    this.self = space.place();
    this.all = new MulticastAccess(space.resources().multicast().views(), nvls.members());
    this.own = HostMemory.of(space.resources().peers().get(self));
    this.prepared = scratch.slice(0, LineSlots.DATA_BYTES);
    this.sum = scratch.slice(LineSlots.DATA_BYTES, LineSlots.DATA_BYTES);
    this.next = scratch.slice(2L * LineSlots.DATA_BYTES, LineSlots.DATA_BYTES);
  }

  /** The kernel of an operation. */
  Kernel of(DirectWork work) {
    int size = work.type().bytes();
    long bytes = work.count() * size;
    if (bytes > LineSlots.DATA_BYTES || !Nvls.has(work)) {
      throw new InternalErrorException(
          "%s of %d bytes by NVLS in lines".formatted(work.operation(), bytes),
          "report this: it should not have been chosen");
    }
    if (!work.operation().reduces()) {
      return new AllGather(this, (int) bytes);
    }
    Reduction reduction = Reductions.of(work.type(), work.op(), nvls.members().size());
    return new AllReduce(this, reduction, (int) work.count(), (int) bytes);
  }

  /** Own data to all ranks' slots; returns which operation it is. */
  @HotPath
  private long give(HostMemory source, int bytes) {
    long operation = operations++;
    long slot = slots.slot(operation, self);
    all.storeLines(source, slot, bytes, LlLines.flag(operation), LlLines.wrapped(operation));
    return operation;
  }

  /** A rank's data out of the own memory. */
  @HotPath
  private void take(long operation, int place, HostMemory target, long offset, int bytes) {
    int peer = nvls.members().get(place);
    long slot = slots.slot(operation, place);
    LlLines.unpack(own, slot, peer, target, offset, bytes, LlLines.flag(operation), waiter);
  }

  private record AllGather(NvlsLines lines, int bytes) implements Kernel {
    @Override
    @HotPath
    public void run(HostMemory send, HostMemory recv) {
      long operation = lines.give(send, bytes);
      for (int place = 0; place < lines.slots.team(); place++) {
        lines.take(operation, place, recv, (long) place * bytes, bytes);
      }
    }
  }

  private record AllReduce(NvlsLines lines, Reduction reduction, int count, int bytes)
      implements Kernel {
    @Override
    @HotPath
    public void run(HostMemory send, HostMemory recv) {
      HostMemory mine = send;
      if (reduction.hasPrepare()) {
        mine = lines.prepared;
        reduction.prepare(send, 0, mine, 0, count);
      }
      long operation = lines.give(mine, bytes);
      lines.take(operation, 0, lines.sum, 0, bytes);
      for (int place = 1; place < lines.slots.team(); place++) {
        lines.take(operation, place, lines.next, 0, bytes);
        reduction.reduce(lines.sum, 0, lines.next, 0, lines.sum, 0, count);
      }
      reduction.finish(lines.sum, 0, count);
      Copies.copy(lines.sum, 0, recv, 0, bytes);
    }
  }
}
