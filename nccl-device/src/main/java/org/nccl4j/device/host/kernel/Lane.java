package org.nccl4j.device.host.kernel;

import java.util.List;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.kernel.P2pWork;
import org.nccl4j.device.kernel.Protocol;

/**
 * The sends to one peer, or the receives from it, one after the other, a step at a time and never
 * waiting.
 */
abstract class Lane {
  final int peer;
  private final P2pWork[] works;
  private final HostMemory[] buffers;
  private int current;
  private long done;

  Lane(int peer, List<P2pWork> works) {
    this.peer = peer;
    this.works = works.stream().filter(work -> work.bytes() > 0).toArray(P2pWork[]::new);
    this.buffers = new HostMemory[this.works.length];
    for (int w = 0; w < this.works.length; w++) {
      buffers[w] = this.works[w].buffer() == null ? null : HostMemory.of(this.works[w].buffer());
    }
  }

  /** Begins a run. */
  @HotPath
  final void begin() {
    current = 0;
    done = 0;
  }

  @HotPath
  final boolean isDone() {
    return current == works.length;
  }

  /**
   * Does one step if it can be done now.
   *
   * @param ownBuffer the launch's buffer, for works that name none
   */
  @HotPath
  final boolean progress(HostMemory ownBuffer) {
    P2pWork work = works[current];
    boolean ll = work.protocol() == Protocol.LL;
    int bytes = (int) Math.min(stepBytes(ll), work.bytes() - done);
    HostMemory buffer = buffers[current] == null ? ownBuffer : buffers[current];
    if (!step(buffer, work.offset() + done, bytes, ll)) {
      return false;
    }
    done += bytes;
    if (done == work.bytes()) {
      current++;
      done = 0;
    }
    return true;
  }

  /** Most bytes of a step. */
  abstract int stepBytes(boolean ll);

  /** Moves one step's bytes if that can be done now. */
  abstract boolean step(HostMemory buffer, long offset, int bytes, boolean ll);

  /** Sends. */
  static final class Out extends Lane {
    private final SendEnd end;
    private final int llBytes;
    private final int simpleBytes;

    Out(SendEnd end, List<P2pWork> works, int llBytes, int simpleBytes) {
      super(end.peer, works);
      this.end = end;
      this.llBytes = llBytes;
      this.simpleBytes = simpleBytes;
    }

    @Override
    @HotPath
    int stepBytes(boolean ll) {
      return ll ? llBytes : simpleBytes;
    }

    @Override
    @HotPath
    boolean step(HostMemory buffer, long offset, int bytes, boolean ll) {
      if (!end.hasCredit()) {
        return false;
      }
      if (ll) {
        end.clearIfWrapped();
        LlLines.pack(buffer, offset, bytes, end.memory(), end.llSlot(), end.llFlag());
        end.next();
      } else {
        Copies.copy(buffer, offset, end.memory(), end.simpleSlot(), bytes);
        end.post(bytes);
      }
      return true;
    }
  }

  /** Receives. */
  static final class In extends Lane {
    private final RecvEnd end;
    private final Waiter waiter;
    private final int llBytes;
    private final int simpleBytes;

    In(RecvEnd end, List<P2pWork> works, Waiter waiter, int llBytes, int simpleBytes) {
      super(end.peer, works);
      this.end = end;
      this.waiter = waiter;
      this.llBytes = llBytes;
      this.simpleBytes = simpleBytes;
    }

    @Override
    @HotPath
    int stepBytes(boolean ll) {
      return ll ? llBytes : simpleBytes;
    }

    @Override
    @HotPath
    boolean step(HostMemory buffer, long offset, int bytes, boolean ll) {
      if (ll) {
        if (!LlLines.isComplete(end, bytes, end.llFlag())) {
          return false;
        }
        LlLines.unpack(end, buffer, offset, bytes, end.llFlag(), waiter);
        end.releaseLazily();
      } else {
        if (!end.hasData()) {
          return false;
        }
        Copies.copy(end.memory(), end.simpleSlot(), buffer, offset, bytes);
        end.release();
      }
      return true;
    }
  }
}
