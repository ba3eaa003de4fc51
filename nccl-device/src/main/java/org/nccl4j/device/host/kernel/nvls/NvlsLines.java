package org.nccl4j.device.host.kernel.nvls;

import org.nccl4j.device.HotPath;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.host.kernel.protocol.Call;
import org.nccl4j.device.host.kernel.protocol.Copies;
import org.nccl4j.device.host.kernel.protocol.Kernel;
import org.nccl4j.device.host.kernel.protocol.LineSlots;
import org.nccl4j.device.host.kernel.protocol.LlLines;
import org.nccl4j.device.host.kernel.protocol.Sender;
import org.nccl4j.device.host.kernel.protocol.SpinWait;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.host.reduce.Operands;
import org.nccl4j.device.host.reduce.Reduction;
import org.nccl4j.device.host.reduce.Reductions;
import org.nccl4j.device.kernel.CallText;
import org.nccl4j.device.kernel.Nvls;
import org.nccl4j.device.kernel.WindowWork;
import org.nccl4j.device.symmetric.SymmetricSpace;

/**
 * Small exchanges of all with all in one flight: each rank stores its data, as lines with flags,
 * into the library's own window of all ranks at once, and takes everybody's out of its own.
 *
 * <p>A rank writes into a half again two operations later; by then it has all lines of the
 * operation between, so every other rank has ended the one before. Owned by the thread that runs
 * the communicator's current kernel.
 */
public final class NvlsLines implements Sender {
  private final Nvls nvls;
  private final SpinWait waiter;
  private final LineSlots slots;
  private final int self;
  private final MulticastAccess all;
  private final HostMemory own;
  private final HostMemory scratch;
  private final Operands operands = new Operands();
  private final HostMemory prepared;
  private final HostMemory sum;
  private final HostMemory next;
  private long operations;

  /** The rank whose data are awaited, and the place and form in which they come. */
  private int peer;

  private long slot;
  private int flag;

  /**
   * The lines of a communicator.
   *
   * @param space with a window of its own that is reached by multicast
   * @param scratch of three times {@link LineSlots#DATA_BYTES}
   */
  public NvlsLines(Nvls nvls, SymmetricSpace space, SpinWait waiter, HostMemory scratch) {
    this.nvls = nvls;
    this.waiter = waiter;
    this.slots = new LineSlots(space.size());
    this.self = space.place();
    this.all = new MulticastAccess(space.resources().multicast().views(), nvls.members());
    this.own = HostMemory.of(space.resources().peers().get(self));
    this.scratch = scratch;
    this.prepared = scratch.slice(0, LineSlots.DATA_BYTES);
    this.sum = scratch.slice(LineSlots.DATA_BYTES, LineSlots.DATA_BYTES);
    this.next = scratch.slice(2L * LineSlots.DATA_BYTES, LineSlots.DATA_BYTES);
  }

  /** The kernel of an operation. */
  public Kernel of(WindowWork work) {
    int size = work.type().bytes();
    long bytes = work.count() * size;
    if (bytes > LineSlots.DATA_BYTES || !Nvls.has(work)) {
      throw new InternalErrorException(
          "%s of %d bytes by NVLS in lines".formatted(work.operation(), bytes),
          "report this: it should not have been chosen");
    }
    Call call = new Call(work.signature(), () -> CallText.of(work.shape(), work.count()));
    if (!work.operation().reduces()) {
      return new AllGather(this, call, (int) bytes);
    }
    Reduction reduction = Reductions.ofAll(work.type(), work.op(), nvls.members().size());
    return new AllReduce(this, call, reduction, (int) work.count(), (int) bytes);
  }

  /** Own data to all ranks' slots; returns which operation it is. */
  @HotPath
  private long give(HostMemory source, int bytes, Call call) {
    long operation = operations++;
    all.storeLines(source, slots.slot(operation, self), bytes, LlLines.flag(operation, call));
    return operation;
  }

  /** A rank's data out of this rank's memory. */
  @HotPath
  private void take(
      long operation, int place, HostMemory target, long offset, int bytes, Call call) {
    take(operation, place, 0, target, offset, bytes, call);
  }

  /** A rank's data out of this rank's memory, from a place on. */
  @HotPath
  private void take(
      long operation, int place, int at, HostMemory target, long offset, int bytes, Call call) {
    peer = nvls.members().get(place);
    slot = slots.slot(operation, place);
    flag = LlLines.flag(operation, call);
    LlLines.unpack(own, slot + 2 * at, target, offset, bytes, flag, call, this, waiter);
  }

  /** All ranks' data, combined at once, as many bytes at a time as all ranks have room for. */
  @HotPath
  private void takeAll(
      long operation, Reduction reduction, HostMemory target, int bytes, int size, Call call) {
    int team = slots.team();
    int room = (int) Math.min(bytes, scratch.size() / team);
    room = Math.max(8, room & ~7);
    for (int at = 0; at < bytes; at += room) {
      int some = Math.min(room, bytes - at);
      operands.clear();
      for (int place = 0; place < team; place++) {
        take(operation, place, at, scratch, (long) place * room, some, call);
        operands.add(scratch, (long) place * room);
      }
      reduction.reduceAll(operands, target, at, some / size);
    }
  }

  /** All data are taken: frees the slots of old flags before operations in flags repeat. */
  @HotPath
  private void end(long operation) {
    if (LlLines.isLastOfSlot(operation, LineSlots.HALVES)) {
      for (int place = 0; place < slots.team(); place++) {
        LlLines.clear(own, slots.slot(operation, place), 2 * LineSlots.DATA_BYTES);
      }
    }
  }

  @Override
  public int peer() {
    return peer;
  }

  @Override
  public boolean sentAnother(Call call) {
    return LlLines.isOther(own, slot, flag);
  }

  private record AllGather(NvlsLines lines, Call call, int bytes) implements Kernel {
    @Override
    @HotPath
    public void run(HostMemory send, HostMemory recv) {
      long operation = lines.give(send, bytes, call);
      for (int place = 0; place < lines.slots.team(); place++) {
        lines.take(operation, place, recv, (long) place * bytes, bytes, call);
      }
      lines.end(operation);
    }
  }

  private record AllReduce(NvlsLines lines, Call call, Reduction reduction, int count, int bytes)
      implements Kernel {
    @Override
    @HotPath
    public void run(HostMemory send, HostMemory recv) {
      HostMemory mine = send;
      if (reduction.hasPrepare()) {
        mine = lines.prepared;
        reduction.prepare(send, 0, mine, 0, count);
      }
      long operation = lines.give(mine, bytes, call);
      if (reduction.widens()) {
        lines.takeAll(operation, reduction, recv, bytes, bytes / count, call);
        lines.end(operation);
        return;
      }
      lines.take(operation, 0, lines.sum, 0, bytes, call);
      for (int place = 1; place < lines.slots.team(); place++) {
        lines.take(operation, place, lines.next, 0, bytes, call);
        reduction.reduce(lines.sum, 0, lines.next, 0, lines.sum, 0, count);
      }
      lines.end(operation);
      reduction.finish(lines.sum, 0, count);
      Copies.copy(lines.sum, 0, recv, 0, bytes);
    }
  }
}
