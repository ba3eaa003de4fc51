package org.nccl4j.device.host.kernel.protocol;

import java.lang.invoke.VarHandle;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.Connection.ExposedSteps;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.host.memory.AtomicWords;
import org.nccl4j.device.host.memory.HostMemory;

/**
 * A proxy's part of exposed steps, in the sender's process: it answers the sender's offer in place
 * of a receiver, and finds what the sender exposes; see {@link Exposure}. Owned by the thread that
 * gives the proxy its turns.
 */
public final class ProxyExposures implements ExposedSteps {
  private final ConnectionLayout layout;
  private final HostMemory data;
  private final HostMemory credit;
  private final int leastBytes;
  private final long way;

  /** The sender's exposed buffers, by {@link Exposure#index}; null before the offer is answered. */
  private HostMemory[] exposed;

  /**
   * The exposed steps of a connection.
   *
   * @param connection as the sending kernels see it
   * @param leastBytes of a step that is exposed
   * @param registered whether only memory is exposed that its user has registered
   */
  public ProxyExposures(
      Connection connection, ConnectionLayout layout, int leastBytes, boolean registered) {
    this.layout = layout;
    this.data = HostMemory.of(connection.data());
    this.credit = HostMemory.of(connection.credit());
    this.leastBytes = leastBytes;
    this.way = registered ? Exposure.BY_PROXY_REGISTERED : Exposure.BY_PROXY;
  }

  @Override
  @HotPath
  public void answer() {
    if (exposed == null && AtomicWords.loadAcquire(data, Exposure.OFFER) != 0) {
      exposed = ExposedMemory.find(AtomicWords.loadAcquire(data, Exposure.OFFER));
      if (exposed != null) {
        AtomicWords.storeRelease(
            credit, Exposure.ANSWER, Exposure.answer(way, leastBytes, /* maps= */ false));
      }
    }
  }

  @Override
  @HotPath
  public boolean isExposed(long step) {
    long size = ConnectionLayout.size(step);
    return exposed != null && data.window(size).getInt(data.index(size)) < 0;
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
    AtomicWords.storeRelease(credit, Exposure.READING, step + 1);
    VarHandle.fullFence();
    if (AtomicWords.loadAcquire(data, Exposure.REVOKED) == 0) {
      return true;
    }
    end();
    return false;
  }

  @Override
  @HotPath
  public DeviceMemory memory(long step) {
    return exposed[Exposure.index(step, Exposure.SOURCE)];
  }

  @Override
  @HotPath
  public long offset(long step) {
    long at = layout.simple(step);
    return data.window(at).getLong(data.index(at) + Exposure.PLACE);
  }

  @Override
  @HotPath
  public void fill(long step, int bytes) {
    HostMemory source = exposed[Exposure.index(step, Exposure.SOURCE)];
    Copies.copy(source, offset(step), data, layout.simple(step), bytes);
  }

  @Override
  public void end() {
    AtomicWords.storeRelease(credit, Exposure.READING, 0);
  }
}
