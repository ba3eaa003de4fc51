package org.nccl4j.device.host.kernel.algorithm;

import java.util.ArrayList;
import java.util.List;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.kernel.protocol.BufferCopies;
import org.nccl4j.device.host.kernel.protocol.Kernel;
import org.nccl4j.device.host.kernel.protocol.Lane;
import org.nccl4j.device.host.kernel.protocol.SpinWait;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.kernel.P2pWork;

/**
 * Sends and receives that progress together: the lanes take turns, a step each, so that none waits
 * for another. Messages of a rank to itself are copied while the first steps are under way, before
 * anything is received.
 */
public final class SendRecv implements Kernel {
  /**
   * Sends and receives in steps: those of a step begin once the step before has ended on this rank.
   * Data that it has exposed may still be read then, so no step writes what one before it sends.
   */
  public static final class Steps implements Kernel {
    private final SendRecv[] steps;

    public Steps(List<SendRecv> steps) {
      this.steps = steps.toArray(SendRecv[]::new);
    }

    @Override
    @HotPath
    public void run(HostMemory send, HostMemory recv) {
      for (SendRecv step : steps) {
        step.run(send, recv);
      }
    }
  }

  private record SelfCopy(P2pWork from, P2pWork to) {}

  /** Most pairs of a send and a receive whose buffers are compared. */
  private static final int MOST_PAIRS = 4096;

  private final Lane.Out[] outs;
  private final Lane.In[] ins;

  /** True if the sends and the receives are few enough to compare their buffers. */
  private final boolean few;

  /** True for a small message to another rank and one from there. */
  private final boolean isSmallExchange;

  private final SelfCopy[] copies;
  private final BufferCopies by;

  /** True if what is received leaves the caches before anybody reads it. */
  private final boolean leaves;

  private final SpinWait waiter;

  /**
   * A kernel for lanes and what stays on the rank.
   *
   * @param own in pairs of a send and a receive
   * @param by which the rank's messages to itself are copied
   * @param leaves whether what is received leaves the caches before anybody reads it
   */
  public SendRecv(
      List<Lane.Out> outs,
      List<Lane.In> ins,
      List<P2pWork> own,
      BufferCopies by,
      boolean leaves,
      SpinWait waiter) {
    this.outs = outs.toArray(Lane.Out[]::new);
    this.ins = ins.toArray(Lane.In[]::new);
    long sends = outs.stream().mapToLong(Lane::works).sum();
    this.few = sends * ins.stream().mapToLong(Lane::works).sum() <= MOST_PAIRS;
    this.isSmallExchange =
        outs.size() == 1 && ins.size() == 1 && outs.get(0).isSmall() && ins.get(0).isSmall();
    this.by = by;
    this.leaves = leaves;
    this.waiter = waiter;
    List<SelfCopy> pairs = new ArrayList<>();
    for (int w = 0; w + 1 < own.size(); w += 2) {
      pairs.add(new SelfCopy(own.get(w), own.get(w + 1)));
    }
    this.copies = pairs.toArray(SelfCopy[]::new);
  }

  @Override
  @HotPath
  public void run(HostMemory send, HostMemory recv) {
    // Without a free slot others may have to be received before there is one.
    if (isSmallExchange && outs[0].sendSmall(send)) {
      copyOwn(send, recv);
      ins[0].recvSmall(recv);
      return;
    }
    begin(outs);
    begin(ins);
    for (Lane.Out lane : outs) {
      lane.mayExpose(
          few && lane.exposes(send) && isMatched(lane) && !isReceivedInto(lane, send, recv));
    }
    for (Lane.In lane : ins) {
      lane.mayExpect(few && lane.isPlaced() && !overwrites(lane, send, recv));
      lane.expect(recv);
    }
    round(outs, send);
    copyOwn(send, recv);
    waiter.begin();
    while (true) {
      Lane other = waiter.isSlow() ? sentAnother() : null;
      expect(recv);
      int moved = round(outs, send) + round(ins, recv);
      if (moved > 0) {
        waiter.begin();
      } else if (isDone(outs) && isDone(ins)) {
        return;
      } else if (other != null) {
        throw waiter.differs(other.call(), other.peer);
      } else {
        waiter.idle(awaited(), "a matching call");
      }
    }
  }

  /** Copies the rank's messages to itself. */
  @HotPath
  void copyOwn(HostMemory send, HostMemory recv) {
    for (SelfCopy copy : copies) {
      HostMemory from = buffer(copy.from, send);
      HostMemory to = buffer(copy.to, recv);
      by.copyAll(from, copy.from.offset(), to, copy.to.offset(), copy.from.bytes(), leaves);
    }
  }

  /**
   * True unless the slots can hold all that a kernel without receives sends. Such a kernel ends
   * before the receiver's begins, and so it does when the receiver could read its buffers.
   */
  private boolean isMatched(Lane.Out out) {
    return ins.length > 0 || !out.fitsSlots();
  }

  /** True if a receive of this kernel changes what a lane sends. */
  private boolean isReceivedInto(Lane.Out out, HostMemory send, HostMemory recv) {
    for (Lane in : ins) {
      if (out.overlaps(send, in, recv)) {
        return true;
      }
    }
    for (SelfCopy copy : copies) {
      long to = buffer(copy.to, recv).address() + copy.to.offset();
      if (out.overlaps(send, to, copy.from.bytes())) {
        return true;
      }
    }
    return false;
  }

  /** True if what a lane receives changes what this kernel sends: then it may not come early. */
  private boolean overwrites(Lane.In in, HostMemory send, HostMemory recv) {
    for (Lane.Out out : outs) {
      if (out.overlaps(send, in, recv)) {
        return true;
      }
    }
    for (SelfCopy copy : copies) {
      HostMemory from = buffer(copy.from, send);
      if (in.overlaps(recv, from.address() + copy.from.offset(), copy.from.bytes())) {
        return true;
      }
    }
    return false;
  }

  private void expect(HostMemory recv) {
    for (Lane.In lane : ins) {
      lane.expect(recv);
    }
  }

  private static HostMemory buffer(P2pWork work, HostMemory own) {
    return work.buffer() == null ? own : HostMemory.of(work.buffer());
  }

  private static void begin(Lane[] lanes) {
    for (Lane lane : lanes) {
      lane.begin();
    }
  }

  private static int round(Lane[] lanes, HostMemory own) {
    int moved = 0;
    for (Lane lane : lanes) {
      if (!lane.isDone() && lane.progress(own)) {
        moved++;
      }
    }
    return moved;
  }

  private static boolean isDone(Lane[] lanes) {
    for (Lane lane : lanes) {
      if (!lane.isDone()) {
        return false;
      }
    }
    return true;
  }

  /** A lane whose next step seems to have come as one of another call; null if none is. */
  private Lane sentAnother() {
    for (Lane lane : ins) {
      if (!lane.isDone() && lane.sentAnother()) {
        return lane;
      }
    }
    return null;
  }

  private int awaited() {
    for (Lane lane : ins) {
      if (!lane.isDone()) {
        return lane.peer;
      }
    }
    for (Lane lane : outs) {
      if (!lane.isDone()) {
        return lane.peer;
      }
    }
    return -1;
  }
}
