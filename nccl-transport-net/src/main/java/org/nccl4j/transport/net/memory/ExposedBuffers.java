package org.nccl4j.transport.net.memory;

import org.nccl4j.api.spi.NetConnection;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.connection.Connection.ExposedSteps;

/**
 * The buffers that kernels, or puts of a GPU, expose to a proxy, which sends from them, as memory
 * of the network's connection. What the network does not take is copied into the step's slot. Owned
 * by the thread that gives the proxy its turns.
 */
public final class ExposedBuffers implements AutoCloseable {
  private final ExposedSteps steps;
  private final UserBuffers buffers;
  private final boolean placed;

  /** The last step whose data were copied into its slot, or -1. */
  private long copied = -1;

  /**
   * Buffers of one connection.
   *
   * @param placed whether the receiver's kernel knows of an exposed step when it comes, so that the
   *     step waits until it is known where its data go
   * @param gpu gives the network memory of a GPU; null on the host device
   */
  public ExposedBuffers(ExposedSteps steps, NetConnection network, boolean placed, GpuBuffers gpu) {
    this.steps = steps;
    this.placed = placed;
    this.buffers = new UserBuffers(network, gpu);
  }

  /** Returns the steps. */
  @HotPath
  public ExposedSteps steps() {
    return steps;
  }

  /**
   * Finds the data of an exposed step; {@link #memory} and {@link #offset} return them from then
   * on. Copies them into the step's slot where the network does not take the buffer.
   *
   * @param idle whether no message is in progress
   * @return false if the data are in the slot
   */
  @HotPath
  public boolean find(long step, int bytes, boolean idle) {
    if (copied == step) {
      return false;
    }
    DeviceMemory buffer = steps.memory(step);
    if (!buffers.find(buffer, buffer.address() + steps.offset(step), bytes, idle)) {
      copy(step, bytes);
      return false;
    }
    return true;
  }

  /** Copies an exposed step's data into the step's slot, unless they are there. */
  @HotPath
  public void copy(long step, int bytes) {
    if (copied != step) {
      steps.fill(step, bytes);
      copied = step;
    }
  }

  /** True if exposed steps wait until it is known where their data go. */
  @HotPath
  public boolean arePlaced() {
    return placed;
  }

  /** Returns the memory that was found. */
  @HotPath
  public NetMemory memory() {
    return buffers.memory();
  }

  /** Returns the offset of the data that were found in their memory, in bytes. */
  @HotPath
  public long offset() {
    return buffers.offset();
  }

  /** Has the network forget memory that is no longer registered; no message is in progress. */
  public void forgetEnded() {
    buffers.forgetEnded();
  }

  @Override
  public void close() {
    buffers.close();
  }
}
