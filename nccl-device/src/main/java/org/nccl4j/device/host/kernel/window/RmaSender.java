package org.nccl4j.device.host.kernel.window;

import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.kernel.protocol.Call;
import org.nccl4j.device.host.kernel.protocol.Copies;
import org.nccl4j.device.host.kernel.protocol.Kernel;
import org.nccl4j.device.host.kernel.protocol.SendEnd;
import org.nccl4j.device.host.kernel.protocol.SpinWait;
import org.nccl4j.device.host.memory.AtomicWords;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.kernel.Connection;
import org.nccl4j.device.kernel.ConnectionLayout;
import org.nccl4j.device.kernel.OneSidedWork;
import org.nccl4j.device.kernel.RmaMessage;
import org.nccl4j.device.kernel.RmaSpace;

/**
 * One-sided operations with ranks outside the team, as messages ({@link RmaMessage}). Sending is
 * owned by the thread that runs the communicator's current kernel.
 */
public final class RmaSender {
  private final SendEnd[] sends;
  private final HostMemory signals;
  private final SpinWait waiter;
  private final int room;

  /** Signals waited for, of each rank. */
  private final long[] awaited;

  /**
   * Operations by a space's connections.
   *
   * @param signals a word for each rank, {@link #signal} bytes from the first
   */
  public RmaSender(RmaSpace space, ConnectionLayout layout, HostMemory signals, SpinWait waiter) {
    int n = space.sends().size();
    this.sends = new SendEnd[n];
    for (int rank = 0; rank < n; rank++) {
      Connection to = space.sends().get(rank);
      sends[rank] = to == null ? null : new SendEnd(rank, to, layout);
    }
    this.signals = signals;
    this.waiter = waiter;
    this.room = layout.simpleSlotBytes() - RmaMessage.HEADER;
    this.awaited = new long[n];
  }

  /** Offset of a rank's signal word. */
  public static long signal(int rank) {
    return (long) rank * ConnectionLayout.WORD_STRIDE;
  }

  public Kernel of(OneSidedWork.RemotePut put) {
    HostMemory source = put.bytes() == 0 ? null : HostMemory.of(put.source());
    return (send, recv) -> put(source, put);
  }

  /** Returns when the source may be written again: its data are in slots. */
  @HotPath
  private void put(HostMemory source, OneSidedWork.RemotePut put) {
    SendEnd end = sends[put.rank()];
    long done = 0;
    do {
      end.awaitCredit(waiter);
      int part = (int) Math.min(room, put.bytes() - done);
      long slot = end.simpleSlot();
      if (part > 0) {
        Copies.copy(source, done, end.memory(), slot + RmaMessage.HEADER, part);
      }
      boolean last = done + part == put.bytes();
      head(end.memory(), slot, put.window(), put.offset() + done, part, last ? 1 : 0);
      end.post(RmaMessage.HEADER + part, Call.NONE);
      done += part;
    } while (done < put.bytes());
  }

  private static void head(
      HostMemory memory, long slot, long window, long offset, int bytes, int signal) {
    var words = memory.window(slot);
    int at = memory.index(slot);
    words.putLong(at, window);
    words.putLong(at + RmaMessage.OFFSET, offset);
    words.putInt(at + RmaMessage.BYTES, bytes);
    words.putInt(at + RmaMessage.SIGNALS, signal);
  }

  /** Waits for signals of a rank. */
  @HotPath
  void await(OneSidedWork.RemoteAwaited from) {
    int rank = from.rank();
    awaited[rank] += from.signals();
    waiter.awaitGreater(signals, signal(rank), awaited[rank] - 1, rank, "a signal");
  }

  /** Messages sent to a rank so far. */
  long sent(int rank) {
    return sends[rank] == null
        ? 0
        : AtomicWords.loadAcquire(sends[rank].memory(), ConnectionLayout.TAIL);
  }
}
