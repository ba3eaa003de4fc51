package org.nccl4j.device.host.kernel.protocol;

import java.nio.ByteBuffer;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.host.memory.HostMemory;

/**
 * One end of a connection: the step it is at, and where that step's slots lie. Owned by the thread
 * that runs the communicator's current kernel. An end may be made before its connection; then the
 * thread that plans binds the two before the plan is launched.
 */
public abstract class ConnectionEnd {
  /** Bytes from the beginning of an LL128 slot, which is its flag, to its data. */
  static final int LL128_DATA = 8;

  public final int peer;
  HostMemory data;
  HostMemory credit;

  /** The window of the data side's first bytes, where the slots of one cache line are. */
  ByteBuffer front;

  /** Index of the data side's first byte in it. */
  int frontIndex;

  final ConnectionLayout layout;
  long step;

  /** Offset of the flag of the LL128 slot that was found last. */
  long ll128Flag;

  ConnectionEnd(int peer, Connection connection, ConnectionLayout layout) {
    this(peer, layout);
    bind(connection);
  }

  /** An end without a connection yet. */
  ConnectionEnd(int peer, ConnectionLayout layout) {
    this.peer = peer;
    this.layout = layout;
  }

  /** The same end for a communicator in which the peer has another number, at step 0. */
  ConnectionEnd(int peer, ConnectionEnd same) {
    this(peer, same.layout);
    bind(same);
  }

  /** Gives it its connection. */
  final void bind(Connection connection) {
    bind(HostMemory.of(connection.data()), HostMemory.of(connection.credit()));
  }

  /** Gives it the connection of another end. */
  final void bind(ConnectionEnd same) {
    bind(same.data, same.credit);
  }

  private void bind(HostMemory itsData, HostMemory itsCredit) {
    data = itsData;
    credit = itsCredit;
    front = itsData == null ? null : itsData.window(0);
    frontIndex = itsData == null ? 0 : itsData.index(0);
  }

  /** True if it has its connection. */
  final boolean isBound() {
    return data != null;
  }

  final long step() {
    return step;
  }

  /** Goes on at a step that another end of the same connection has reached. */
  public final void goOnAt(long reached) {
    step = reached;
    forget();
  }

  /** Forgets what was last seen of the other side. */
  abstract void forget();

  /** Returns the memory that contains the slots. */
  public final HostMemory memory() {
    return data;
  }

  /** Returns the memory that contains the head. */
  public final HostMemory creditMemory() {
    return credit;
  }

  @HotPath
  public final long simpleSlot() {
    return layout.simple(step);
  }

  /** Finds the LL128 slot of the current step, which has some bytes. */
  @HotPath
  final void findLl128(int bytes) {
    ll128Flag = Ll128Slots.slot(layout, step, bytes);
  }

  /** Returns the offset of the data of the LL128 slot that was found last. */
  @HotPath
  final long ll128Data() {
    return ll128Flag + LL128_DATA;
  }

  @HotPath
  final long llSlot() {
    return layout.ll(step);
  }

  @HotPath
  public final int llFlag(Call call) {
    return LlLines.flag(step, call);
  }
}
