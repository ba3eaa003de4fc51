package org.nccl4j.it.perf.rank;

import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.RemoteException;
import org.nccl4j.device.cuda.CudaStream;
import org.nccl4j.it.perf.nccl.Libnccl;
import org.nccl4j.it.perf.workload.Cell;
import org.nccl4j.it.perf.workload.PreparedCall;

/** A rank in a communicator of libnccl. Used by one thread. */
final class NcclRank implements AutoCloseable {
  private final RankLane lane;
  private final Libnccl nccl;
  private final RankBuffers buffers;
  private final long communicator;
  private final long[] windows;
  private Cell preparedCell;
  private PreparedCall prepared;

  private NcclRank(RankLane lane, long communicator, boolean registered) {
    this.lane = lane;
    this.nccl = lane.nccl();
    this.buffers = lane.buffers(Library.LIBNCCL);
    this.communicator = communicator;
    windows =
        registered
            ? new long[] {register(buffers.first()), register(buffers.second())}
            : new long[0];
  }

  /** Joins, with the lane's context current; returns once all ranks have. */
  static NcclRank join(RankLane lane, String uniqueId, boolean registered) {
    long made = lane.nccl().join(lane.spec().nRanks(), uniqueId, lane.rank());
    return new NcclRank(lane, made, registered);
  }

  private long register(DeviceMemory memory) {
    long window = nccl.register(communicator, memory.address(), memory.size());
    if (window == 0) {
      throw new RemoteException(
          "libnccl does not register a buffer as a window and gives no reason",
          "set NCCL_DEBUG=INFO to see its log, or omit --compare");
    }
    return window;
  }

  /** A cell's operation; the same object as long as the cell is the same. */
  PreparedCall operation(Cell cell) {
    if (!cell.equals(preparedCell)) {
      long stream = ((CudaStream) lane.stream()).handle();
      Libnccl.Place place =
          new Libnccl.Place(communicator, lane.rank(), lane.spec().nRanks(), stream);
      prepared = nccl.operation(cell, buffers.buffers(cell), place)::run;
      preparedCell = cell;
    }
    return prepared;
  }

  @Override
  public void close() {
    for (long window : windows) {
      if (window != 0) {
        nccl.deregister(communicator, window);
      }
    }
    nccl.destroy(communicator);
  }
}
