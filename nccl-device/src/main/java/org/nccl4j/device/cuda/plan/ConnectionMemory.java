package org.nccl4j.device.cuda.plan;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.cuda.driver.Gpu;
import org.nccl4j.device.cuda.memory.CudaMemory;
import org.nccl4j.device.kernel.KernelCommunicatorSpec;

/**
 * Device memory of all communicators that use the same connections: the connections' steps, and
 * cells for the tables of each communicator. The first few that share find a cell free; only where
 * there are more of them at a time is memory taken anew. Any thread.
 */
public final class ConnectionMemory implements AutoCloseable {
  /** Cells that are taken at a time, for communicators beside the first. */
  public static final int CELLS = 16;

  private static final int ALIGNMENT = 32;

  private final Gpu gpu;
  private final int nRanks;
  private final DeviceMemory steps;
  private final List<DeviceMemory> more = new ArrayList<>();
  private final Deque<DeviceMemory> free = new ArrayDeque<>();

  /**
   * Creates the memory for a communicator's connections. A single rank has no connections and gets
   * no memory.
   */
  public ConnectionMemory(Gpu gpu, KernelCommunicatorSpec spec) {
    this.gpu = gpu;
    nRanks = spec.nRanks();
    int stepsBytes = nRanks * connectionBytes();
    steps =
        CudaMemory.allocate(gpu, nRanks == 1 ? 0 : stepsBytes + (1L + CELLS) * cellBytes(nRanks));
    if (nRanks == 1) {
      return;
    }
    addCells(steps.slice(stepsBytes, steps.size() - stepsBytes));
    try {
      for (int peer = 0; peer < nRanks; peer++) {
        markCarried(spec.sends().get(peer), spec.recvs().get(peer), peer);
      }
    } catch (RuntimeException e) {
      steps.close();
      throw e;
    }
  }

  private static int connectionBytes() {
    return ConnectionLayout.CHANNELS * KernelLayout.STEPS_BYTES;
  }

  /** Returns the bytes of a communicator's rings, and of its ranks host after host behind them. */
  static int ringBytes(int nRanks) {
    return aligned((ConnectionLayout.CHANNELS + 1) * nRanks * KernelLayout.RANK_BYTES);
  }

  /** Returns the bytes of a communicator's rings and peers, which precede the count of claims. */
  static int tableBytes(int nRanks) {
    return aligned(ringBytes(nRanks) + nRanks * KernelLayout.PEER_BYTES);
  }

  private static int aligned(int bytes) {
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  }

  /** Returns the bytes of one communicator's part. */
  public static int cellBytes(int nRanks) {
    return tableBytes(nRanks) + ALIGNMENT;
  }

  private void addCells(DeviceMemory block) {
    int bytes = cellBytes(nRanks);
    for (long at = 0; at < block.size(); at += bytes) {
      free.add(block.slice(at, bytes));
    }
  }

  private static int carried(Connection connection) {
    return connection == null ? 0 : connection.carried();
  }

  /**
   * Marks the channels that proxies carry: they are told the size of each step, and nothing else.
   * No kernel uses the connections yet.
   *
   * @param send to a peer; null if there is none
   * @param recv from it, likewise
   */
  public void markCarried(Connection send, Connection recv, int peer) {
    int sends = carried(send);
    int receives = carried(recv);
    if (sends == 0 && receives == 0) {
      return;
    }
    int channels = Math.max(sends, receives);
    ByteBuffer marks =
        ByteBuffer.allocateDirect(channels * KernelLayout.STEPS_BYTES)
            .order(ByteOrder.nativeOrder());
    for (int channel = 0; channel < channels; channel++) {
      int mark = (channel < sends ? 1 : 0) + (channel < receives ? 2 : 0);
      int at = channel * KernelLayout.STEPS_BYTES + KernelLayout.STEPS_CARRIED;
      marks.putShort(at, (short) mark);
    }
    steps.write((long) peer * connectionBytes(), marks);
  }

  /** Returns the address of the steps of the connections with a rank of the first communicator. */
  long steps(int firstRank) {
    return steps.address() + (long) firstRank * connectionBytes();
  }

  /** A cell of {@link #cellBytes}, enough for every communicator of these ranks. */
  synchronized DeviceMemory takeCell() {
    if (free.isEmpty()) {
      DeviceMemory block = CudaMemory.allocate(gpu, (long) CELLS * cellBytes(nRanks));
      more.add(block);
      addCells(block);
    }
    return free.remove();
  }

  /** Gives a cell back; nothing that reads it may be running. */
  synchronized void giveCell(DeviceMemory cell) {
    free.add(cell);
  }

  /** All of it. */
  public synchronized long bytes() {
    return steps.size() + more.stream().mapToLong(DeviceMemory::size).sum();
  }

  @Override
  public synchronized void close() {
    more.forEach(DeviceMemory::close);
    steps.close();
  }
}
