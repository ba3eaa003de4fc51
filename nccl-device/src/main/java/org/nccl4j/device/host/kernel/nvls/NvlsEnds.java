package org.nccl4j.device.host.kernel.nvls;

import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.kernel.protocol.Call;
import org.nccl4j.device.host.kernel.protocol.Chunking;
import org.nccl4j.device.host.kernel.protocol.Copies;
import org.nccl4j.device.host.kernel.protocol.SpinWait;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.host.reduce.Reduction;
import org.nccl4j.device.kernel.Nvls;

/**
 * A rank's NVLS connections and what is done on them, chunk by chunk: scatter own data to the
 * heads' connections, combine as a head, gather what the heads give back. Owned by the thread that
 * runs the communicator's current kernel.
 */
public final class NvlsEnds {
  /**
   * Chunks that each phase of a turn takes: half of the slots of a connection, so that a turn never
   * waits for a rank that is still in the turn before.
   */
  public static final int CHUNKS_A_TURN = 4;

  private static final int PIECE = 16 << 10;

  private final Nvls nvls;
  private final SpinWait waiter;
  private final HostMemory own;
  private final MulticastAccess all;
  private final HostMemory scratch;
  private final NvlsConnection[] up;
  private final NvlsConnection[] down;

  /** The current kernel's. */
  private Call call;

  /**
   * The connections of a rank.
   *
   * @param scratch at least 16 KiB
   */
  public NvlsEnds(Nvls nvls, SpinWait waiter, HostMemory scratch) {
    this.nvls = nvls;
    this.waiter = waiter;
    this.own = HostMemory.of(nvls.unicast());
    this.all = new MulticastAccess(nvls);
    this.scratch = scratch;
    int heads = nvls.heads().size();
    this.up = new NvlsConnection[heads];
    this.down = new NvlsConnection[heads];
    for (int head = 0; head < heads; head++) {
      up[head] = NvlsConnection.reduce(nvls, all, head);
      down[head] = NvlsConnection.broadcast(nvls, all, head);
    }
  }

  public Nvls nvls() {
    return nvls;
  }

  /** Begins a kernel. */
  @HotPath
  public void begin(Call newCall) {
    call = newCall;
  }

  /**
   * The first phase of a turn: own data to the heads, a part of each chunk to each.
   *
   * @param parts at the turn's first chunk, before and afterwards
   * @return chunks of the turn
   */
  @HotPath
  public int scatterTurn(Chunking parts, Reduction reduction, HostMemory source, int size) {
    long turn = parts.begin();
    int chunks = 0;
    boolean more;
    do {
      for (int head = 0; head < up.length; head++) {
        scatter(head, reduction, source, parts.offset(head), parts.bytes(head), size);
      }
      chunks++;
      more = parts.next();
    } while (more && chunks < CHUNKS_A_TURN);
    parts.from(turn);
    return chunks;
  }

  /**
   * The last phase of a turn: from each head its part of each chunk.
   *
   * @param parts at the turn's first chunk; afterwards at the next turn's
   * @return whether there is another turn
   */
  @HotPath
  public boolean gatherTurn(Chunking parts, int chunks, HostMemory target) {
    boolean more = false;
    for (int chunk = 0; chunk < chunks; chunk++) {
      for (int head = 0; head < down.length; head++) {
        gather(head, target, parts.offset(head), parts.bytes(head));
      }
      more = parts.next();
    }
    return more;
  }

  /** Own data to a head's connection. No bytes are no step, here and below. */
  @HotPath
  public void scatter(
      int head, Reduction reduction, HostMemory source, long offset, int bytes, int size) {
    if (bytes > 0) {
      long slot = up[head].awaitFree(waiter);
      if (reduction.hasPrepare()) {
        reduction.prepare(source, offset, own, slot, bytes / size);
      } else {
        Copies.copy(source, offset, own, slot, bytes);
      }
      up[head].post(call);
    }
  }

  /** Combines all ranks' data into the head's own target. */
  @HotPath
  public void reduce(Reduction reduction, HostMemory target, long offset, int bytes, int size) {
    if (bytes > 0) {
      NvlsConnection from = up[nvls.headRank()];
      long slot = from.awaitAllFull(waiter, call);
      all.loadReduce(reduction, slot, target, offset, bytes / size, size);
      reduction.finish(target, offset, bytes / size);
      from.releaseAll();
    }
  }

  /** Combines all ranks' data and sends the result to all ranks. Called by a head. */
  @HotPath
  public void reduceBroadcast(Reduction reduction, int bytes, int size) {
    if (bytes > 0) {
      NvlsConnection from = up[nvls.headRank()];
      NvlsConnection to = down[nvls.headRank()];
      long target = to.awaitAllFree(waiter);
      long slot = from.awaitAllFull(waiter, call);
      for (int at = 0; at < bytes; at += PIECE) {
        int piece = Math.min(PIECE, bytes - at);
        all.loadReduce(reduction, slot + at, scratch, 0, piece / size, size);
        reduction.finish(scratch, 0, piece / size);
        all.store(scratch, 0, target + at, piece);
      }
      from.releaseAll();
      to.postAll(call);
    }
  }

  /** Returns this rank's own memory. */
  public HostMemory own() {
    return own;
  }

  /**
   * Combines all ranks' data, not finished, into this rank's own slot of a step that it will send
   * later. The rank has emptied that slot. Called by a head. Returns the slot's offset in {@link
   * #own}.
   *
   * @param ahead steps that come to be given out before it
   */
  @HotPath
  public long reduceAhead(Reduction reduction, int ahead, int bytes, int size) {
    NvlsConnection from = up[nvls.headRank()];
    long target = down[nvls.headRank()].slotAhead(ahead);
    long slot = from.awaitAllFull(waiter, call);
    for (int at = 0; at < bytes; at += PIECE) {
      int piece = Math.min(PIECE, bytes - at);
      all.loadReduce(reduction, slot + at, own, target + at, piece / size, size);
    }
    from.releaseAll();
    return target;
  }

  /**
   * Returns the offset of this rank's own slot of the step that it sends next. Called by a head.
   */
  @HotPath
  public long slotAhead() {
    return down[nvls.headRank()].slotAhead(0);
  }

  /** Sends the next step's data from this rank's own slot to all other ranks. Called by a head. */
  @HotPath
  public void spread(int bytes) {
    NvlsConnection to = down[nvls.headRank()];
    all.spread(own, to.awaitAllFree(waiter), bytes);
    to.postAll(call);
  }

  /** Sends the head's own data to all ranks. */
  @HotPath
  public void broadcast(HostMemory source, long offset, int bytes) {
    if (bytes > 0) {
      NvlsConnection to = down[nvls.headRank()];
      all.store(source, offset, to.awaitAllFree(waiter), bytes);
      to.postAll(call);
    }
  }

  /** Copies a head's data to a target. */
  @HotPath
  public void gather(int head, HostMemory target, long offset, int bytes) {
    if (bytes > 0) {
      NvlsConnection from = down[head];
      Copies.copy(own, from.awaitFull(waiter, call), target, offset, bytes);
      from.release();
    }
  }
}
