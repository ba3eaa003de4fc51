package org.nccl4j.it.perf.rank;

import java.util.List;
import org.nccl4j.api.Communicator;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.it.perf.nccl.Libnccl;
import org.nccl4j.it.perf.workload.Buffers;
import org.nccl4j.it.perf.workload.Call;
import org.nccl4j.it.perf.workload.Cell;
import org.nccl4j.it.perf.workload.Layout;
import org.nccl4j.it.perf.workload.Place;
import org.nccl4j.it.perf.workload.PreparedCall;
import org.nccl4j.it.perf.workload.PreparedCalls;
import org.nccl4j.it.perf.workload.Segment;
import org.nccl4j.it.perf.workload.Workload;

/**
 * One rank's two buffers, large enough for every cell, and the views of them that a cell uses. Used
 * by one thread.
 */
final class RankBuffers implements AutoCloseable {
  private static final int GUARD_BYTES = 256;

  private final RankSpec spec;
  private final DeviceMemory first;
  private final DeviceMemory second;
  private final Runnable release;

  private Cell preparedCell;
  private PreparedCall prepared;
  private Cell cleared;

  RankBuffers(Device device, RankSpec spec) {
    this.spec = spec;
    long bytes = spec.bufferBytes() + GUARD_BYTES;
    boolean mapped = spec.registration() != RegistrationMode.NOT;
    first = mapped ? device.memAlloc(bytes) : device.allocate(bytes);
    second = mapped ? device.memAlloc(bytes) : device.allocate(bytes);
    release = () -> {};
  }

  /** Buffers that libnccl can make windows of; with its device's context current. */
  RankBuffers(Device device, RankSpec spec, Libnccl nccl) {
    this.spec = spec;
    long bytes = spec.bufferBytes() + GUARD_BYTES;
    long one = nccl.allocate(bytes);
    long two = nccl.allocate(bytes);
    first = device.wrap(one, bytes);
    second = device.wrap(two, bytes);
    release =
        () -> {
          nccl.free(one);
          nccl.free(two);
        };
  }

  DeviceMemory first() {
    return first;
  }

  DeviceMemory second() {
    return second;
  }

  /**
   * A cell's memory and what it must hold in the end.
   *
   * @param everything the receive buffer with what lies around it
   * @param guard what comes after the receive buffer and must stay
   */
  record Checked(
      Buffers buffers, DeviceMemory everything, DeviceMemory guard, List<Segment> expected) {}

  /** The operation of a cell; the same object as long as the cell is the same. */
  PreparedCall operation(Communicator communicator, DeviceStream stream, Cell cell) {
    if (!cell.equals(preparedCell)) {
      prepared = unprepared(communicator, stream, cell);
      preparedCell = cell;
    }
    return prepared;
  }

  /** The operation of a cell, made anew. */
  PreparedCall unprepared(Communicator communicator, DeviceStream stream, Cell cell) {
    return PreparedCalls.of(
        cell.workload(),
        new Call(
            communicator,
            stream,
            place(cell),
            cell.layout(spec.nRanks()),
            buffers(cell),
            cell.op(),
            cell.inPlace()));
  }

  /**
   * Zeroes a cell's memory, so that sums in place do not grow from run to run into infinities. Does
   * nothing if that was done for this cell last time.
   */
  void clear(Cell cell) {
    if (!cell.equals(cleared)) {
      long bytes = cell.bytes(spec.nRanks());
      first.slice(0, bytes).fill((byte) 0);
      second.slice(0, bytes).fill((byte) 0);
      cleared = cell;
    }
  }

  /** Returns the memory and values that the check of a cell needs. */
  Checked checked(Cell cell) {
    cleared = null;
    Layout layout = cell.layout(spec.nRanks());
    long occupied = cell.inPlace() ? layout.largest() : layout.recv();
    long bytes = occupied * cell.type().bytes();
    return new Checked(
        buffers(cell),
        second.slice(0, bytes + GUARD_BYTES),
        second.slice(bytes, GUARD_BYTES),
        cell.workload().expected(layout, place(cell)));
  }

  /** The parts of the buffers that a cell uses. */
  Buffers buffers(Cell cell) {
    Layout layout = cell.layout(spec.nRanks());
    long size = cell.type().bytes();
    long part = spec.rank() * layout.count() * size;
    long sendBytes = layout.send() * size;
    long recvBytes = layout.recv() * size;
    long sendAt = cell.inPlace() && gathers(cell) ? part : 0;
    long recvAt = cell.inPlace() && scatters(cell) ? part : 0;
    return new Buffers(
        (cell.inPlace() ? second : first).slice(sendAt, sendBytes),
        second.slice(recvAt, recvBytes),
        cell.type());
  }

  private boolean gathers(Cell cell) {
    Workload workload = cell.workload();
    return workload == Workload.ALL_GATHER
        || workload == Workload.HYPERCUBE
        || (workload == Workload.GATHER && place(cell).isRoot());
  }

  private boolean scatters(Cell cell) {
    Workload workload = cell.workload();
    return workload == Workload.REDUCE_SCATTER
        || (workload == Workload.SCATTER && place(cell).isRoot());
  }

  private Place place(Cell cell) {
    return new Place(spec.rank(), spec.nRanks(), cell.root());
  }

  @Override
  public void close() {
    first.close();
    second.close();
    release.run();
  }
}
