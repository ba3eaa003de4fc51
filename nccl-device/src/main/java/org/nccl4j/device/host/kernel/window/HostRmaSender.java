package org.nccl4j.device.host.kernel.window;

import java.nio.ByteBuffer;
import java.util.concurrent.atomic.AtomicReferenceArray;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.host.kernel.protocol.Call;
import org.nccl4j.device.host.kernel.protocol.ConnectionTable;
import org.nccl4j.device.host.kernel.protocol.Copies;
import org.nccl4j.device.host.kernel.protocol.Kernel;
import org.nccl4j.device.host.kernel.protocol.SendEnd;
import org.nccl4j.device.host.kernel.protocol.SpinWait;
import org.nccl4j.device.host.memory.AtomicWords;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.kernel.OneSidedWork;
import org.nccl4j.device.kernel.RmaMessage;
import org.nccl4j.device.kernel.RmaSpace;

/**
 * One-sided operations with ranks outside the team, as messages ({@link RmaMessage}). Sending is
 * owned by the thread that runs the communicator's current kernel.
 */
public final class HostRmaSender {
  private final ConnectionLayout layout;
  private final ConnectionTable kernels;

  /** By rank; null where there is none yet. Any thread. */
  private final AtomicReferenceArray<Connection> connections;

  /** The ends that puts have used, by rank; null for others. Of the thread that prepares. */
  private final SendEnd[] sends;

  private final HostMemory signals;
  private final SpinWait waiter;
  private final int slotBytes;
  private final int room;

  /** Signals waited for, of each rank. */
  private final long[] awaited;

  /**
   * Operations by a space's connections.
   *
   * @param signals a word for each rank, {@link #signal} bytes from the first
   * @param kernels the ends of the communicator's kernels, which wait until what they expose is
   *     sent
   */
  public HostRmaSender(
      RmaSpace space,
      ConnectionLayout layout,
      HostMemory signals,
      SpinWait waiter,
      ConnectionTable kernels) {
    int n = space.sends().size();
    this.layout = layout;
    this.kernels = kernels;
    this.connections = new AtomicReferenceArray<>(space.sends().toArray(Connection[]::new));
    this.sends = new SendEnd[n];
    this.signals = signals;
    this.waiter = waiter;
    this.slotBytes = layout.simpleSlotBytes();
    this.room = slotBytes - RmaMessage.HEADER;
    this.awaited = new long[n];
  }

  /** Offset of a rank's signal word. */
  public static long signal(int rank) {
    return (long) rank * ConnectionLayout.WORD_STRIDE;
  }

  public Kernel of(OneSidedWork.RemotePut put) {
    SendEnd end = end(put.rank());
    return (send, recv) -> put(end, send, put);
  }

  private SendEnd end(int rank) {
    if (sends[rank] == null) {
      sends[rank] = new SendEnd(rank, connections.get(rank), layout);
      kernels.exposeThrough(sends[rank]);
    }
    return sends[rank];
  }

  /** As {@link RmaSpace.Arrivals#connect}. */
  void connect(int rank, Connection send) {
    connections.set(rank, send);
  }

  /**
   * Returns when all data are in slots or exposed. At the end of the kernel, which waits until what
   * is exposed has been sent, the source may be written again.
   */
  @HotPath
  private void put(SendEnd end, HostMemory source, OneSidedWork.RemotePut put) {
    long done = 0;
    do {
      long rest = put.bytes() - done;
      long behind = exposable(end, source, rest);
      int part = (int) Math.min(room, rest - behind);
      end.awaitCredit(waiter);
      HostMemory memory = end.memory();
      long slot = end.simpleSlot();
      if (part > 0) {
        Copies.copy(source, done + behind, memory, slot + RmaMessage.HEADER, part);
      }
      ByteBuffer words = memory.window(slot);
      int at = memory.index(slot);
      words.putLong(at, put.window());
      words.putLong(at + RmaMessage.OFFSET, put.offset() + done);
      words.putInt(at + RmaMessage.BYTES, part);
      words.putInt(at + RmaMessage.SIGNALS, behind + part == rest ? 1 : 0);
      words.putLong(at + RmaMessage.BEHIND, behind);
      end.post(RmaMessage.HEADER + part, Call.NONE);
      expose(end, source, done, behind);
      done += behind + part;
    } while (done < put.bytes());
  }

  /** Bytes of a put's rest that are sent from the source: steps that are worth it. */
  private long exposable(SendEnd end, HostMemory source, long rest) {
    if (rest == 0 || !end.exposes(source, (int) Math.min(rest, slotBytes))) {
      return 0;
    }
    int last = (int) (rest % slotBytes);
    return last == 0 || end.exposes(source, last) ? rest : rest - last;
  }

  private void expose(SendEnd end, HostMemory source, long from, long bytes) {
    for (long done = 0; done < bytes; done += slotBytes) {
      end.awaitCredit(waiter);
      end.expose(source, from + done, (int) Math.min(slotBytes, bytes - done), Call.NONE);
    }
  }

  /** Waits for signals of a rank. */
  @HotPath
  void await(OneSidedWork.RemoteAwaited from) {
    int rank = from.rank();
    awaited[rank] += from.signals();
    waiter.awaitGreater(signals, signal(rank), awaited[rank] - 1, rank, "a signal");
  }

  /** Ends the offers to expose; no kernel puts any more. */
  public void close() {
    for (SendEnd end : sends) {
      if (end != null) {
        end.close();
      }
    }
  }

  /** Messages sent to a rank so far, the steps behind them included. */
  long sent(int rank) {
    Connection to = connections.get(rank);
    return to == null
        ? 0
        : AtomicWords.loadAcquire(HostMemory.of(to.data()), ConnectionLayout.TAIL);
  }
}
