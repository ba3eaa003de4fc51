package org.nccl4j.transport.net.memory;

import java.nio.ByteBuffer;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.Connection.PlacedSteps;
import org.nccl4j.device.connection.ConnectionLayout;

/**
 * The steps of a channel whose data kernels of a GPU want in their buffers (exposed.cuh). Owned by
 * the thread that gives the proxy its turns.
 */
public final class KernelPlaces implements PlacedSteps {
  private static final long BYTES = (1L << ConnectionLayout.WANTED_STEP) - 1;

  private final int word;
  private final ByteBuffer data;
  private final ByteBuffer credit;
  private final Connection connection;

  /** The wanted steps of a channel of a connection. */
  public KernelPlaces(ProxyChannel channel, Connection connection) {
    this.word = ConnectionLayout.word(channel.number());
    this.data = channel.data();
    this.credit = channel.credit();
    this.connection = connection;
  }

  @Override
  @HotPath
  public long wanted() {
    return StepWords.loadAcquire(credit, word + ConnectionLayout.WANTED) - 1;
  }

  private long told(long step, int which) {
    return StepWords.loadAcquire(
        credit, word + ConnectionLayout.wanted(step) + (long) which * Long.BYTES);
  }

  /** {@inheritDoc} Those up to {@link #wanted} are told as a whole. */
  @Override
  @HotPath
  public boolean isWanted(long step) {
    return wanted() >= step && told(step, 1) >>> ConnectionLayout.WANTED_STEP == step + 1;
  }

  /** {@inheritDoc} A GPU's memory is found by its address, so this tells which GPU. */
  @Override
  @HotPath
  public DeviceMemory memory(long step) {
    return connection.data();
  }

  @Override
  @HotPath
  public long address(long step) {
    return told(step, 0);
  }

  @Override
  @HotPath
  public int bytes(long step) {
    return (int) (told(step, 1) & BYTES);
  }

  @Override
  @HotPath
  public void placed(long step) {
    StepWords.storeRelease(data, word + ConnectionLayout.placed(step), step + 1);
  }
}
