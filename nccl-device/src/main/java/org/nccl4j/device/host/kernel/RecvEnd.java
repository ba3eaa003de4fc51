package org.nccl4j.device.host.kernel;

import java.lang.invoke.VarHandle;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.memory.Words;
import org.nccl4j.device.kernel.Connection;
import org.nccl4j.device.kernel.ConnectionLayout;
import org.nccl4j.device.kernel.SharedConnections;

/** The receiving end of a connection. */
final class RecvEnd extends ConnectionEnd {
  /**
   * In LL and LL128 the head is stored every so many steps. With 4 a sender that is ahead would
   * have between 4 and 8 of the slots for larger steps, and where flights are slow it would stand
   * still for want of them.
   */
  private static final int HEAD_STEPS = 2;

  /** The sender's tail when last looked at. */
  private long tail;

  RecvEnd(int peer, Connection connection, ConnectionLayout layout) {
    super(peer, connection, layout);
  }

  private RecvEnd(int peer, RecvEnd same) {
    super(peer, same);
  }

  /** The same connection for a communicator in which the peer has another number. */
  RecvEnd numbered(int other) {
    return new RecvEnd(other, this);
  }

  @Override
  void forget() {
    tail = 0;
  }

  /** What the sender told last of those that had sent when what was received came. */
  long told() {
    VarHandle.loadLoadFence();
    return Words.loadAcquire(data, SharedConnections.TOLD);
  }

  /** In Simple: waits until the slot of the current step is full. */
  @HotPath
  void awaitData(Waiter waiter) {
    if (tail <= step) {
      tail = waiter.awaitGreater(data, ConnectionLayout.TAIL, step, peer, "data");
    }
  }

  /** In Simple: waits until the slot of a step after the current one is full. */
  @HotPath
  void awaitData(Waiter waiter, int ahead) {
    if (tail <= step + ahead) {
      tail = waiter.awaitGreater(data, ConnectionLayout.TAIL, step + ahead, peer, "data");
    }
  }

  /** In Simple: the slot of a step after the current one. */
  @HotPath
  long simpleSlot(int ahead) {
    return layout.simple(step + ahead);
  }

  /** In LL128: finds the slot of the current step, and waits until it is full. */
  @HotPath
  void awaitLl128(Waiter waiter, int bytes) {
    findLl128(bytes);
    waiter.awaitGreater(data, ll128Flag, step, peer, "data");
  }

  /** In LL128: finds the slot of the current step; whether it is full. */
  @HotPath
  boolean hasLl128(int bytes) {
    findLl128(bytes);
    return Words.loadAcquire(data, ll128Flag) > step;
  }

  /** In Simple: whether the slot of the current step is full. */
  @HotPath
  boolean hasData() {
    if (tail <= step) {
      tail = Words.loadAcquire(data, ConnectionLayout.TAIL);
    }
    return tail > step;
  }

  /** Gives the slot of the current step back, and goes on to the next. */
  @HotPath
  void release() {
    step++;
    Words.storeRelease(credit, ConnectionLayout.HEAD, step);
  }

  /** In LL and LL128: gives slots back, some at a time, and goes on to the next. */
  @HotPath
  void releaseLazily() {
    step++;
    if ((step & (HEAD_STEPS - 1)) == 0) {
      Words.storeRelease(credit, ConnectionLayout.HEAD, step);
    }
  }
}
