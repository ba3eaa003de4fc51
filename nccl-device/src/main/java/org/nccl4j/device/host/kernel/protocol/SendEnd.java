package org.nccl4j.device.host.kernel.protocol;

import java.lang.invoke.VarHandle;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.memory.Words;
import org.nccl4j.device.kernel.Connection;
import org.nccl4j.device.kernel.ConnectionLayout;
import org.nccl4j.device.kernel.SharedConnections;

/** The sending end of a connection. */
public final class SendEnd extends ConnectionEnd {
  /** The receiver's head when last looked at. */
  private long head;

  public SendEnd(int peer, Connection connection, ConnectionLayout layout) {
    super(peer, connection, layout);
  }

  /** An end without a connection yet. */
  SendEnd(int peer, ConnectionLayout layout) {
    super(peer, layout);
  }

  private SendEnd(int peer, SendEnd same) {
    super(peer, same);
  }

  /** The same connection for a communicator in which the peer has another number. */
  SendEnd numbered(int other) {
    return new SendEnd(other, this);
  }

  @Override
  void forget() {
    head = 0;
  }

  /** Tells the receiver for which communicator it sends from now on, before all that it sends. */
  void tell(long told) {
    Words.storeRelease(data, SharedConnections.TOLD, told);
    VarHandle.storeStoreFence();
  }

  /** Waits until the slot of the current step is empty. */
  @HotPath
  public void awaitCredit(Waiter waiter) {
    awaitHead(waiter, step - ConnectionLayout.STEPS);
  }

  /** In LL128: finds the slot of the current step, and waits until it is empty. */
  @HotPath
  void awaitLl128Credit(Waiter waiter, int bytes) {
    findLl128(bytes);
    awaitHead(waiter, step - Ll128Slots.count(bytes));
  }

  private void awaitHead(Waiter waiter, long taken) {
    if (head <= taken) {
      head = waiter.awaitGreater(credit, ConnectionLayout.HEAD, taken, peer, "a free buffer");
    }
  }

  /** True if the slot of the current step is empty. */
  @HotPath
  boolean hasCredit() {
    return isHeadBeyond(step - ConnectionLayout.STEPS);
  }

  /** In LL128: finds the slot of the current step; whether it is empty. */
  @HotPath
  boolean hasLl128Credit(int bytes) {
    findLl128(bytes);
    return isHeadBeyond(step - Ll128Slots.count(bytes));
  }

  private boolean isHeadBeyond(long taken) {
    if (head <= taken) {
      head = Words.loadAcquire(credit, ConnectionLayout.HEAD);
    }
    return head > taken;
  }

  /** In Simple: publishes the slot of the current step, and goes on to the next. */
  @HotPath
  public void post(int bytes, Call call) {
    long size = ConnectionLayout.size(step);
    data.window(size).putInt(data.index(size), bytes);
    long signature = ConnectionLayout.signature(step);
    data.window(signature).putShort(data.index(signature), call.signature);
    step++;
    Words.storeRelease(data, ConnectionLayout.TAIL, step);
  }

  /**
   * In LL128: publishes the slot that was found, that of the current step, and goes on to the next.
   */
  @HotPath
  void postLl128(Call call) {
    Words.storeRelease(data, ll128Flag, call.flag(step));
    step++;
  }

  /** In LL, where every word carries its flag: goes on to the next step. */
  @HotPath
  void next() {
    step++;
  }
}
