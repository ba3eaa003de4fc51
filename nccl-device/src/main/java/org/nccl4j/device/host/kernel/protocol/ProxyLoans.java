package org.nccl4j.device.host.kernel.protocol;

import java.lang.invoke.VarHandle;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.Connection.LentSteps;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.host.memory.AtomicWords;
import org.nccl4j.device.host.memory.HostMemory;

/**
 * A proxy's part of lent steps, in the sender's process: it answers the sender's offer in place of
 * a receiver, and finds what the sender lends; see {@link Lending}. Owned by the thread that gives
 * the proxy its turns.
 */
public final class ProxyLoans implements LentSteps {
  private final ConnectionLayout layout;
  private final HostMemory data;
  private final HostMemory credit;
  private final int leastBytes;
  private final long way;

  /** The sender's lent buffers, by {@link Lending#index}; null before the offer is answered. */
  private HostMemory[] lent;

  /**
   * The lent steps of a connection.
   *
   * @param connection as the sending kernels see it
   * @param leastBytes of a step that is lent
   * @param registered whether only memory is lent that its user has registered
   */
  public ProxyLoans(
      Connection connection, ConnectionLayout layout, int leastBytes, boolean registered) {
    this.layout = layout;
    this.data = HostMemory.of(connection.data());
    this.credit = HostMemory.of(connection.credit());
    this.leastBytes = leastBytes;
    this.way = registered ? Lending.BY_PROXY_REGISTERED : Lending.BY_PROXY;
  }

  @Override
  @HotPath
  public void answer() {
    if (lent == null && AtomicWords.loadAcquire(data, Lending.OFFER) != 0) {
      lent = LentMemory.find(AtomicWords.loadAcquire(data, Lending.OFFER));
      if (lent != null) {
        AtomicWords.storeRelease(
            credit, Lending.ANSWER, Lending.answer(way, leastBytes, /* maps= */ false));
      }
    }
  }

  @Override
  @HotPath
  public boolean isLent(long step) {
    long size = ConnectionLayout.size(step);
    return lent != null && data.window(size).getInt(data.index(size)) < 0;
  }

  @Override
  @HotPath
  public int bytes(long step) {
    long size = ConnectionLayout.size(step);
    return ~data.window(size).getInt(data.index(size));
  }

  @Override
  @HotPath
  public boolean begin(long step) {
    AtomicWords.storeRelease(credit, Lending.READING, step + 1);
    VarHandle.fullFence();
    if (AtomicWords.loadAcquire(data, Lending.REVOKED) == 0) {
      return true;
    }
    end();
    return false;
  }

  @Override
  @HotPath
  public DeviceMemory memory(long step) {
    return lent[Lending.index(step, Lending.SOURCE)];
  }

  @Override
  @HotPath
  public long offset(long step) {
    long at = layout.simple(step);
    return data.window(at).getLong(data.index(at) + Lending.PLACE);
  }

  @Override
  @HotPath
  public void fill(long step, int bytes) {
    HostMemory source = lent[Lending.index(step, Lending.SOURCE)];
    Copies.copy(source, offset(step), data, layout.simple(step), bytes);
  }

  @Override
  public void end() {
    AtomicWords.storeRelease(credit, Lending.READING, 0);
  }
}
