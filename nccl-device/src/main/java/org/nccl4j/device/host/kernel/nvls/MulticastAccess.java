package org.nccl4j.device.host.kernel.nvls;

import java.util.List;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.kernel.protocol.Call;
import org.nccl4j.device.host.kernel.protocol.Copies;
import org.nccl4j.device.host.kernel.protocol.LlLines;
import org.nccl4j.device.host.kernel.protocol.SpinWait;
import org.nccl4j.device.host.memory.AtomicWords;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.host.reduce.Operands;
import org.nccl4j.device.host.reduce.Reduction;
import org.nccl4j.device.kernel.Nvls;

/**
 * Accesses to all ranks' memories at once, as the switch has them, done here one memory after the
 * other: a load combines in the order of the ranks. Owned by the thread that runs the
 * communicator's current kernel.
 */
final class MulticastAccess {
  private final HostMemory[] views;
  private final Operands operands = new Operands();

  /** The rank of each. */
  private final int[] ranks;

  MulticastAccess(Nvls nvls) {
    this(nvls.multicast().views(), nvls.members());
  }

  /** Creates access to the same memory of each of some ranks. */
  MulticastAccess(List<DeviceMemory> memories, List<Integer> ranks) {
    this.views = memories.stream().map(HostMemory::of).toArray(HostMemory[]::new);
    this.ranks = ranks.stream().mapToInt(Integer::intValue).toArray();
  }

  /**
   * All memories' elements at a place, combined, to a target. As multimem.ld_reduce.
   *
   * @param size bytes of an element
   */
  @HotPath
  void loadReduce(
      Reduction reduction, long offset, HostMemory target, long targetOffset, int count, int size) {
    if (views.length == 1) {
      Copies.copyAll(views[0], offset, target, targetOffset, (long) count * size);
      return;
    }
    if (reduction.widens()) {
      operands.clear();
      for (HostMemory view : views) {
        operands.add(view, offset);
      }
      reduction.reduceAll(operands, target, targetOffset, count);
      return;
    }
    HostMemory sum = views[0];
    long sumOffset = offset;
    for (int v = 1; v < views.length; v++) {
      reduction.reduce(sum, sumOffset, views[v], offset, target, targetOffset, count);
      sum = target;
      sumOffset = targetOffset;
    }
  }

  /**
   * One element of each memory at a place, combined rank by rank, each prepared before.
   *
   * @param reduction of {@link org.nccl4j.device.host.reduce.Reductions#ofAll}
   * @param element scratch for one
   */
  @HotPath
  void combineByRanks(
      Reduction reduction, long offset, HostMemory target, long targetOffset, HostMemory element) {
    if (reduction.widens()) {
      operands.clear();
      for (HostMemory view : views) {
        operands.add(view, offset);
      }
      reduction.reduceAll(operands, target, targetOffset, 1);
      return;
    }
    reduction.prepare(views[0], offset, target, targetOffset, 1);
    for (int v = 1; v < views.length; v++) {
      reduction.prepare(views[v], offset, element, 0, 1);
      reduction.reduce(target, targetOffset, element, 0, target, targetOffset, 1);
    }
  }

  /** Bytes to a place of all memories. As multimem.st. */
  @HotPath
  void store(HostMemory source, long sourceOffset, long offset, int bytes) {
    for (HostMemory view : views) {
      Copies.copy(source, sourceOffset, view, offset, bytes);
    }
  }

  /** Bytes as lines with flags to a place of all memories. */
  @HotPath
  void storeLines(HostMemory source, long offset, int bytes, int flag) {
    for (HostMemory view : views) {
      LlLines.pack(source, 0, bytes, view, offset, flag);
    }
  }

  /** Bytes that are at a place of one of the memories, to the same place of all others. */
  @HotPath
  void spread(HostMemory source, long offset, int bytes) {
    for (HostMemory view : views) {
      if (view.address() != source.address()) {
        Copies.copy(source, offset, view, offset, bytes);
      }
    }
  }

  /** Publishes a word to all memories, with all that this thread wrote before it. */
  @HotPath
  void storeRelease(long offset, long value) {
    for (HostMemory view : views) {
      AtomicWords.storeRelease(view, offset, value);
    }
  }

  /** Two bytes to a place of all memories. */
  @HotPath
  void store(long offset, short value) {
    for (HostMemory view : views) {
      view.window(offset).putShort(view.index(offset), value);
    }
  }

  /** Throws if the signature at a place of a memory is another call's. */
  @HotPath
  void compare(SpinWait waiter, long offset, Call call) {
    for (int v = 0; v < views.length; v++) {
      if (views[v].window(offset).getShort(views[v].index(offset)) != call.signature) {
        throw waiter.differs(call, ranks[v]);
      }
    }
  }

  /**
   * Waits until the least of all memories' words is greater than a value, and returns it. As
   * polling by multimem.ld_reduce.min.
   */
  @HotPath
  long awaitLeastGreater(SpinWait waiter, long offset, long value, String what) {
    long least = Long.MAX_VALUE;
    for (int v = 0; v < views.length; v++) {
      least = Math.min(least, waiter.awaitGreater(views[v], offset, value, ranks[v], what));
    }
    return least;
  }
}
