package org.nccl4j.transport.net.memory;

import java.nio.ByteBuffer;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.Connection.ExposedSteps;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.cuda.driver.Gpu;

/**
 * The steps of a channel that kernels of a GPU expose to its proxy (exposed.cuh): each by a mark in
 * its size, and the address of its data. Owned by the thread that gives the proxy its turns, but
 * for {@link #end}.
 */
public final class KernelExposures implements ExposedSteps {
  private final int word;
  private final ByteBuffer data;
  private final Connection connection;
  private final Gpu gpu;
  private final ConnectionLayout layout;
  private final int part;
  private volatile boolean ended;

  /** The exposed steps of a channel of a connection. */
  public KernelExposures(
      ProxyChannel channel, Connection connection, ConnectionLayout layout, Gpu gpu) {
    this.word = ConnectionLayout.word(channel.number());
    this.data = channel.data();
    this.part = channel.number() * channel.slotBytes();
    this.connection = connection;
    this.layout = layout;
    this.gpu = gpu;
  }

  private int size(long step) {
    return StepWords.loadInt(data, word + ConnectionLayout.size(step));
  }

  /** {@inheritDoc} Plans know it. */
  @Override
  public void answer() {}

  @Override
  @HotPath
  public boolean isExposed(long step) {
    return (size(step) & (ConnectionLayout.LINES | ConnectionLayout.EXPOSED))
        == ConnectionLayout.EXPOSED;
  }

  @Override
  @HotPath
  public int bytes(long step) {
    return size(step) & ~ConnectionLayout.EXPOSED;
  }

  @Override
  @HotPath
  public boolean begin(long step) {
    return !ended;
  }

  /** {@inheritDoc} All of the GPU's memory has addresses from this buffer's on. */
  @Override
  @HotPath
  public DeviceMemory memory(long step) {
    return connection.data();
  }

  private long address(long step) {
    return StepWords.loadAcquire(data, word + ConnectionLayout.exposedFrom(step));
  }

  /** {@inheritDoc} May be negative. */
  @Override
  @HotPath
  public long offset(long step) {
    return address(step) - connection.data().address();
  }

  @Override
  public void fill(long step, int bytes) {
    long slot = connection.data().address() + layout.simple(step) + part;
    gpu.hostCopies().move(slot, address(step), bytes);
  }

  @Override
  public void end() {
    ended = true;
  }
}
