package org.nccl4j.device.host.kernel.protocol;

import java.util.List;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.kernel.CallText;
import org.nccl4j.device.kernel.P2pWork;
import org.nccl4j.operation.Protocol;

/**
 * The sends to one peer, or the receives from it, one after the other, a step at a time and never
 * waiting.
 */
public abstract class Lane {
  public final int peer;
  private final ConnectionLayout layout;
  final P2pWork[] works;
  private final HostMemory[] buffers;
  final Call[] calls;
  private int current;
  private long done;

  /** The work and the bytes of it up to which the end knows where data are wanted. */
  private int told;

  private long toldDone;

  Lane(ConnectionEnd end, List<P2pWork> works) {
    this.peer = end.peer;
    this.layout = end.layout;
    this.works = works.stream().filter(work -> work.bytes() > 0).toArray(P2pWork[]::new);
    this.buffers = new HostMemory[this.works.length];
    this.calls = new Call[this.works.length];
    for (int w = 0; w < this.works.length; w++) {
      P2pWork work = this.works[w];
      buffers[w] = work.buffer() == null ? null : HostMemory.of(work.buffer());
      calls[w] = new Call(work.signature(), () -> CallText.of(work));
    }
  }

  /** Begins a run. */
  @HotPath
  public final void begin() {
    current = 0;
    done = 0;
    told = 0;
    toldDone = 0;
  }

  @HotPath
  public final boolean isDone() {
    return current == works.length;
  }

  /**
   * Does one step if it can be done now.
   *
   * @param ownBuffer the launch's buffer, for works that name none
   */
  @HotPath
  public final boolean progress(HostMemory ownBuffer) {
    P2pWork work = works[current];
    Protocol protocol = work.protocol();
    int bytes = (int) Math.min(stepBytes(protocol), work.bytes() - done);
    HostMemory buffer = buffer(current, ownBuffer);
    if (!step(buffer, work.offset() + done, bytes, protocol, calls[current])) {
      return false;
    }
    done += bytes;
    if (done == work.bytes()) {
      current++;
      done = 0;
    }
    return true;
  }

  /** Sends or receives of some bytes. */
  public final int works() {
    return works.length;
  }

  /** True if a sender can be as far ahead of its receiver as all steps together. */
  @HotPath
  public final boolean fitsSlots() {
    long steps = 0;
    for (P2pWork work : works) {
      int step = stepBytes(work.protocol());
      steps += (work.bytes() + step - 1) / step;
    }
    return steps <= ConnectionLayout.STEPS;
  }

  /**
   * True for one message that is a short step in LL128. Such need neither the loop over steps nor
   * the choices between kinds of steps, which take as long as the step itself.
   */
  public final boolean isSmall() {
    return works.length == 1
        && works[0].protocol() == Protocol.LL128
        && works[0].bytes() <= Math.min(stepBytes(Protocol.LL128), SlotPrimitives.SHORT);
  }

  /** Most bytes of a step of Simple. */
  final int largestSimpleStep() {
    long most = 0;
    for (P2pWork work : works) {
      most = work.protocol() == Protocol.SIMPLE ? Math.max(most, work.bytes()) : most;
    }
    return (int) Math.min(most, layout.simpleSlotBytes());
  }

  /**
   * True if a part of the works' buffers has bytes of another lane's.
   *
   * @param own the launch's buffer, for works that name none
   * @param others the other lane's buffer of the launch
   */
  @HotPath
  public final boolean overlaps(HostMemory own, Lane other, HostMemory others) {
    for (int w = 0; w < works.length; w++) {
      if (other.overlaps(others, address(w, own), works[w].bytes())) {
        return true;
      }
    }
    return false;
  }

  /**
   * True if a part of the works' buffers has bytes of a range of addresses.
   *
   * @param own the launch's buffer, for works that name none
   */
  @HotPath
  public final boolean overlaps(HostMemory own, long begin, long bytes) {
    for (int w = 0; w < works.length; w++) {
      long at = address(w, own);
      if (begin < at + works[w].bytes() && at < begin + bytes) {
        return true;
      }
    }
    return false;
  }

  /** A buffer that other processes can map if there is one, else any. */
  @HotPath
  final HostMemory anyBuffer(HostMemory own) {
    HostMemory any = own;
    for (HostMemory buffer : buffers) {
      if (buffer != null && (any == null || any.segment() == null)) {
        any = buffer;
      }
    }
    return any;
  }

  private long address(int work, HostMemory own) {
    return buffer(work, own).address() + works[work].offset();
  }

  @HotPath
  final HostMemory buffer(int work, HostMemory own) {
    return buffers[work] == null ? own : buffers[work];
  }

  /** Tells a receiving end where the data of the next steps are wanted. */
  @HotPath
  final void tell(RecvEnd end, HostMemory own) {
    while (told < works.length && end.mayWantNext()) {
      P2pWork work = works[told];
      int bytes = (int) Math.min(stepBytes(work.protocol()), work.bytes() - toldDone);
      HostMemory target = work.protocol() == Protocol.SIMPLE ? buffer(told, own) : null;
      end.wantNext(target, work.offset() + toldDone, bytes);
      toldDone += bytes;
      if (toldDone == work.bytes()) {
        told++;
        toldDone = 0;
      }
    }
  }

  /** Most bytes of a step. */
  private int stepBytes(Protocol protocol) {
    return switch (protocol) {
      case LL -> layout.llSlotBytes() / 2;
      case LL128 -> layout.ll128SlotBytes() - ConnectionEnd.LL128_DATA;
      case SIMPLE -> layout.simpleSlotBytes();
    };
  }

  /** Moves one step's bytes if that can be done now. */
  abstract boolean step(HostMemory buffer, long offset, int bytes, Protocol protocol, Call call);

  /** True if the next step seems to have come as one of another call; see {@link Sender}. */
  public abstract boolean sentAnother();

  /** The call of the next step. */
  public final Call call() {
    return calls[current];
  }

  /** Sends. */
  public static final class Out extends Lane {
    private final SendEnd end;
    private final int largest;
    private boolean mayExpose;

    public Out(SendEnd end, List<P2pWork> works) {
      super(end, works);
      this.end = end;
      this.largest = largestSimpleStep();
    }

    /**
     * True if there may be a step that the receiver can read from the buffers.
     *
     * @param own the launch's buffer, for works that name none
     */
    @HotPath
    public boolean exposes(HostMemory own) {
      return largest > 0 && end.exposes(anyBuffer(own), largest);
    }

    /** Sets whether the receiver may read this run's data from the buffers. */
    @HotPath
    public void mayExpose(boolean may) {
      mayExpose = may;
    }

    /** Sends the one small message if there is a free slot; whether it did. */
    @HotPath
    public boolean sendSmall(HostMemory own) {
      P2pWork work = works[0];
      int bytes = (int) work.bytes();
      if (!end.sendSmallNow(buffer(0, own), work.offset(), bytes, calls[0])) {
        return false;
      }
      end.takeNext(bytes, calls[0]);
      return true;
    }

    @Override
    @HotPath
    boolean step(HostMemory buffer, long offset, int bytes, Protocol protocol, Call call) {
      boolean free = protocol == Protocol.LL128 ? end.hasLl128Credit(bytes) : end.hasCredit();
      if (!free) {
        return false;
      }
      switch (protocol) {
        case LL -> {
          LlLines.pack(buffer, offset, bytes, end.memory(), end.llSlot(), end.llFlag(call));
          end.next(bytes);
        }
        case LL128 -> {
          Ll128Slots.copyFlagLineLast(buffer, offset, end.memory(), end.ll128Data(), bytes);
          end.postLl128(bytes, call);
        }
        case SIMPLE -> {
          if (mayExpose && end.exposes(buffer, bytes)) {
            end.expose(buffer, offset, bytes, call);
          } else {
            end.fill(buffer, offset, 0, bytes);
            end.post(bytes, call);
          }
        }
      }
      return true;
    }

    @Override
    public boolean sentAnother() {
      return false;
    }
  }

  /** Receives. */
  public static final class In extends Lane {
    private final RecvEnd end;
    private final SpinWait waiter;
    private final boolean leaves;
    private boolean expects;

    /**
     * Receives from a peer.
     *
     * @param leaves whether what is received leaves the caches before anybody reads it
     */
    public In(RecvEnd end, List<P2pWork> works, boolean leaves, SpinWait waiter) {
      super(end, works);
      this.end = end;
      this.leaves = leaves;
      this.waiter = waiter;
    }

    /** True if a proxy may receive data in the buffers. */
    @HotPath
    public boolean isPlaced() {
      return end.hasPlacements();
    }

    /** Sets whether data of this run may come to the buffers before their step's turn. */
    @HotPath
    public void mayExpect(boolean may) {
      expects = may;
    }

    /**
     * Lets the next steps' data come to the buffers.
     *
     * @param own the launch's buffer, for works that name none
     */
    @HotPath
    public void expect(HostMemory own) {
      if (expects) {
        tell(end, own);
      }
    }

    /** Receives the one small message. */
    @HotPath
    public void recvSmall(HostMemory own) {
      P2pWork work = works[0];
      end.recvSmall(waiter, calls[0], buffer(0, own), work.offset(), (int) work.bytes());
    }

    @Override
    @HotPath
    boolean step(HostMemory buffer, long offset, int bytes, Protocol protocol, Call call) {
      switch (protocol) {
        case LL -> {
          if (!LlLines.isComplete(end, bytes, end.llFlag(call))) {
            return false;
          }
          LlLines.unpack(end, buffer, offset, bytes, call, waiter);
          end.releaseLazily();
        }
        case LL128 -> {
          if (!end.hasLl128(call, bytes)) {
            return false;
          }
          Copies.copy(end.memory(), end.ll128Data(), buffer, offset, bytes);
          end.releaseLazily();
        }
        case SIMPLE -> {
          if (!end.hasData(waiter, call)) {
            end.want(buffer, offset, bytes);
            return false;
          }
          end.locate(waiter);
          end.copy(0, buffer, offset, bytes, leaves, waiter);
          end.release();
        }
      }
      return true;
    }

    @Override
    public boolean sentAnother() {
      return end.awaited().sentAnother(call());
    }
  }
}
