package org.nccl4j.transport.net.proxy;

import java.util.Arrays;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.api.spi.NetReceiver;
import org.nccl4j.api.spi.NetRequest;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.connection.Connection.PlacedSteps;
import org.nccl4j.transport.net.memory.LineMark;
import org.nccl4j.transport.net.memory.PlacedBuffers;
import org.nccl4j.transport.net.memory.UserBuffers;

/**
 * The receives of a proxy that go to the buffers in which kernels want the data. Where the network
 * can move a receive, each begins in its slot and is moved, at once if the kernel wants its step by
 * then. Elsewhere a receive begins in the buffer if the kernel wants its step by then. Owned by the
 * thread that gives the proxy its turns.
 */
final class PlacedReceives {
  private final PlacedSteps steps;
  private final NetReceiver receiver;
  private final UserBuffers buffers;
  private final boolean moves;

  /** True if the sender may wait until it is told where a step goes. */
  private final boolean tells;

  /** By slot: the step whose receive is in a buffer or was moved to one; -1 for none. */
  private final long[] inBuffer;

  /** By slot: where the data of that step go. */
  private final NetMemory[] memories;

  private final long[] offsets;

  /** The first step that the kernel may want and whose receive has not been moved yet. */
  private long next;

  /** The last step in {@link #inBuffer}, or -1. */
  private long last = -1;

  /** True if memory has been deregistered that the network may know. */
  private boolean forgets;

  /** The receives of a connection with so many slots. */
  PlacedReceives(PlacedBuffers where, NetReceiver receiver, int slots) {
    this.steps = where.steps();
    this.receiver = receiver;
    this.buffers = new UserBuffers(receiver, where.gpu());
    this.memories = new NetMemory[slots];
    this.offsets = new long[slots];
    this.moves = receiver.redirects();
    this.tells = moves && steps.areAwaited();
    if (tells) {
      receiver.tellPlaces();
    }
    this.inBuffer = new long[slots];
    Arrays.fill(inBuffer, -1);
  }

  /**
   * True if the receive of a step is to begin in a buffer: {@link #memory} and {@link #offset} tell
   * where, until another step is asked for. One whose message may be longer goes to its slot.
   *
   * @param received steps before this one have come
   */
  @HotPath
  boolean begins(long step, long received) {
    return !moves
        && steps.isWanted(step)
        && !LineMark.mayBePadded(steps.bytes(step))
        && find(step, received);
  }

  /**
   * True if the receive of a step, which is begun next, is begun as one that is moved to a buffer.
   *
   * @param received steps before this one have come
   */
  @HotPath
  boolean movesNext(long step, long received) {
    return moves
        && steps.isWanted(step)
        && find(step, received)
        && receiver.redirectNext(buffers.memory(), buffers.offset(), steps.bytes(step));
  }

  private boolean find(long step, long received) {
    boolean idle = last < received;
    return buffers.find(steps.memory(step), steps.address(step), steps.bytes(step), idle);
  }

  @HotPath
  NetMemory memory() {
    return buffers.memory();
  }

  @HotPath
  long offset() {
    return buffers.offset();
  }

  /** Returns the exact bytes of a wanted step. */
  @HotPath
  int bytes(long step) {
    return steps.bytes(step);
  }

  /** The receive of a step has begun in a buffer or was moved to one. */
  @HotPath
  void placed(long step, int slot) {
    inBuffer[slot] = step;
    memories[slot] = buffers.memory();
    offsets[slot] = buffers.offset();
    last = Math.max(last, step);
  }

  /**
   * Moves the receives of wanted steps to their buffers. One that has begun in its slot stays.
   *
   * @param received the first step whose receive is in progress
   * @param posted the first step that has no receive yet
   * @param requests by slot
   */
  @HotPath
  void move(long received, long posted, NetRequest[] requests) {
    if (!moves || steps.wanted() < next) {
      return;
    }
    long end = Math.min(steps.wanted() + 1, posted);
    boolean all = true;
    for (long step = Math.max(next, received); step < end; step++) {
      int slot = (int) (step % requests.length);
      all &= inBuffer[slot] == step || settle(step, slot, received, requests);
      next = all ? step + 1 : next;
    }
  }

  /** True if a step needs no other look. */
  private boolean settle(long step, int slot, long received, NetRequest[] requests) {
    if (steps.isWanted(step)) {
      return move(step, slot, received, requests);
    }
    return !tells || !steps.isDeclined(step) || requests[slot].stay();
  }

  private boolean move(long step, int slot, long received, NetRequest[] requests) {
    if (!find(step, received)) {
      return !tells || requests[slot].stay(); // not the network's: it goes to the slot
    }
    if (!requests[slot].redirect(buffers.memory(), buffers.offset(), steps.bytes(step))) {
      return false;
    }
    placed(step, slot);
    return true;
  }

  /**
   * True if the data of a received step are in the kernel's buffer, of which this tells it.
   *
   * @param request of the step, which has ended
   */
  @HotPath
  boolean take(long step, int slot, NetRequest request) {
    if (inBuffer[slot] != step || moves && !request.isRedirected()) {
      return false;
    }
    steps.placed(step);
    return true;
  }

  /** The memory to which the data of the slot's last placed step went. */
  @HotPath
  NetMemory placeOf(int slot) {
    return memories[slot];
  }

  /** The offset of these data in that memory. */
  @HotPath
  long offsetOf(int slot) {
    return offsets[slot];
  }

  /** True if the data of a step that is not received may come to a buffer. */
  boolean areInProgress(long received) {
    return last >= received;
  }

  /** Memory has been deregistered: the network forgets it once no receive is in a buffer. */
  void forget(long received) {
    forgets = true;
    forgetEnded(received);
  }

  /** Forgets memory that is no longer registered, if no receive is in a buffer any more. */
  @HotPath
  void forgetEnded(long received) {
    if (forgets && last < received) {
      forgets = false;
      buffers.forgetEnded();
    }
  }

  void close() {
    buffers.close();
  }
}
