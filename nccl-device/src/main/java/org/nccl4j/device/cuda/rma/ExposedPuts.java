package org.nccl4j.device.cuda.rma;

import java.nio.ByteBuffer;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.bind.NativeMemory;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.Connection.ExposedSteps;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.cuda.driver.DriverLibrary;
import org.nccl4j.device.cuda.driver.Gpu;

/**
 * The steps of a connection of puts that the proxy sends from where they lie in a GPU: the thread
 * that launches a put adds its steps before the stream can reach them, in order, and the stream
 * waits until they have been sent. So no word tells of them but the tail.
 *
 * <p>{@link #add} is called by one thread at a time; the rest by the thread that gives the
 * connection's proxy its turns.
 */
public final class ExposedPuts implements ExposedSteps {
  private final Gpu gpu;
  private final Connection connection;
  private final ConnectionLayout layout;
  private final int slotBytes;
  private final int leastBytes;
  private final Queue<Run> runs = new ConcurrentLinkedQueue<>();

  /** The host's address of the data side; 0 before it is needed. */
  private long host;

  private volatile boolean ended;

  /** The run that holds the step that was asked for last; null if none does. */
  private Run current;

  /** Steps of full slots, but for the last, of one put. */
  private record Run(long first, long end, DeviceMemory source, long offset, long bytes) {}

  /**
   * The exposed steps of a connection.
   *
   * @param connection the sending end, whose slots are in pinned memory
   * @param leastBytes of a put that is exposed
   */
  public ExposedPuts(Gpu gpu, Connection connection, ConnectionLayout layout, int leastBytes) {
    this.gpu = gpu;
    this.connection = connection;
    this.layout = layout;
    this.slotBytes = layout.simpleSlotBytes() / ConnectionLayout.CHANNELS;
    this.leastBytes = leastBytes;
  }

  /** True if so many bytes are worth exposing, and the connection has not failed. */
  boolean takes(long bytes) {
    return bytes >= leastBytes && !ended;
  }

  /** Exposes bytes of a buffer as the steps from one on; returns the step behind them. */
  long add(long first, DeviceMemory source, long offset, long bytes) {
    long end = first + (bytes + slotBytes - 1) / slotBytes;
    runs.add(new Run(first, end, source, offset, bytes));
    return end;
  }

  @Override
  public void answer() {}

  @Override
  @HotPath
  public boolean isExposed(long step) {
    if (current != null && step < current.end) {
      return step >= current.first;
    }
    current = runs.peek();
    while (current != null && current.end <= step) {
      runs.remove();
      current = runs.peek();
    }
    return current != null && current.first <= step;
  }

  @Override
  @HotPath
  public int bytes(long step) {
    return (int) Math.min(slotBytes, current.bytes - (step - current.first) * slotBytes);
  }

  @Override
  @HotPath
  public boolean begin(long step) {
    return !ended;
  }

  @Override
  @HotPath
  public DeviceMemory memory(long step) {
    return current.source;
  }

  @Override
  @HotPath
  public long offset(long step) {
    return current.offset + (step - current.first) * slotBytes;
  }

  @Override
  public void fill(long step, int bytes) {
    if (host == 0) {
      long data = connection.data().address();
      host = gpu.context().get(() -> DriverLibrary.hostAddress(data, gpu));
    }
    ByteBuffer slot = NativeMemory.buffer(host + layout.simple(step), bytes);
    gpu.hostCopies().read(current.source.address() + offset(step), slot);
  }

  @Override
  public void end() {
    ended = true;
  }
}
