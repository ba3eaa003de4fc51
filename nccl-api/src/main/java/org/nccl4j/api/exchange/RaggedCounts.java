package org.nccl4j.api.exchange;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.LongBuffer;
import org.nccl4j.api.group.OperationDispatcher;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.kernel.CallShape;
import org.nccl4j.device.kernel.RaggedKernels;
import org.nccl4j.operation.Operation;

/**
 * The counts of a call by sends and receives, which an all-gather brings to the hosts of all ranks.
 * A rank's row has its count for each rank, the elements of its send buffer, and the number of the
 * exchange with the kind of the call, which tells calls apart.
 */
final class RaggedCounts implements AutoCloseable {
  private final OperationDispatcher dispatcher;
  private final RaggedKernels.Sizes sizes;
  private final int exchange;
  private final DeviceMemory own;
  private final DeviceMemory all;
  private final ByteBuffer row;
  private final ByteBuffer rows;

  /**
   * Counts of one exchange.
   *
   * @param exchange its number in the communicator, the same on all ranks
   * @param own of {@link #rowBytes}
   * @param all of so many bytes for each rank
   */
  RaggedCounts(
      OperationDispatcher dispatcher,
      RaggedKernels.Sizes sizes,
      int exchange,
      DeviceMemory own,
      DeviceMemory all) {
    this.dispatcher = dispatcher;
    this.sizes = sizes;
    this.exchange = exchange;
    this.own = own;
    this.all = all;
    row = buffer(own.size());
    rows = buffer(all.size());
  }

  private static ByteBuffer buffer(long bytes) {
    return ByteBuffer.allocateDirect(Math.toIntExact(bytes)).order(ByteOrder.nativeOrder());
  }

  private static int words(int nRanks) {
    return nRanks + 2;
  }

  /** Bytes of a rank's row. */
  static long rowBytes(int nRanks) {
    return (long) words(nRanks) * Long.BYTES;
  }

  /**
   * Brings this rank's counts to all. Waits for the stream and for the other ranks.
   *
   * @param where the begin of errors: the call, rank and communicator
   * @param gathers true for an all-gather, which has one count
   * @param room elements of the send buffer
   * @throws InvalidArgumentException on all ranks, for counts of one that are not allowed; then
   *     nothing is sent
   * @throws InvalidUsageException on all ranks, if they are in different calls
   */
  void exchange(
      String where, boolean gathers, DeviceMemory counts, long room, DeviceStream stream) {
    int n = sizes.nRanks();
    stream.synchronize();
    read(gathers, counts);
    row.putLong(n * Long.BYTES, room);
    row.putLong((n + 1) * Long.BYTES, call(gathers));
    own.write(0, row.clear());
    dispatcher.call(
        CallShape.of(Operation.ALL_GATHER, DataType.INT64, RedOp.SUM, 0),
        own,
        all,
        words(n),
        stream);
    stream.synchronize();
    all.read(0, rows.clear());
    for (int rank = 0; rank < n; rank++) {
      checkCall(where, gathers, rank);
    }
    for (int rank = 0; rank < n; rank++) {
      checkCounts(where, rank);
    }
    for (int rank = 0; rank < n; rank++) {
      checkSums(where, gathers, rank);
    }
  }

  private long call(boolean gathers) {
    return 2L * exchange + (gathers ? 1 : 0);
  }

  private void read(boolean gathers, DeviceMemory counts) {
    int n = sizes.nRanks();
    int bytes = sizes.countBytes();
    ByteBuffer given = buffer((long) (gathers ? 1 : n) * bytes);
    counts.read(0, given);
    LongBuffer target = row.clear().asLongBuffer();
    for (int rank = 0; rank < n; rank++) {
      int at = gathers ? 0 : rank * bytes;
      target.put(sizes.wide() ? given.getLong(at) : given.getInt(at));
    }
  }

  private long word(int rank, int index) {
    return rows.getLong((rank * words(sizes.nRanks()) + index) * Long.BYTES);
  }

  /** Elements from a rank to another. */
  long count(int source, int target) {
    return word(source, target);
  }

  /** The first element for a rank in another's send buffer, in an all-to-all. */
  long sentBefore(int source, int target) {
    long before = 0;
    for (int rank = 0; rank < target; rank++) {
      before += count(source, rank);
    }
    return before;
  }

  /** The first element from a rank among those that another receives. */
  long receivedBefore(int source, int target) {
    long before = 0;
    for (int rank = 0; rank < source; rank++) {
      before += count(rank, target);
    }
    return before;
  }

  private void checkCall(String where, boolean gathers, int rank) {
    long theirs = word(rank, sizes.nRanks() + 1);
    if (theirs != call(gathers)) {
      throw new InvalidUsageException(
          ErrorId.CALLS_DIFFER,
          where
              + "rank %d is in an all-%s of exchange %d, and this rank in an all-%s of exchange %d, in the order of their creation"
                  .formatted(
                      rank,
                      theirs % 2 == 0 ? "to-all" : "gather",
                      theirs / 2,
                      gathers ? "gather" : "to-all",
                      exchange),
          "make the calls of a communicator's exchanges in the same order on all ranks");
    }
  }

  private void checkCounts(String where, int source) {
    for (int target = 0; target < sizes.nRanks(); target++) {
      long count = count(source, target);
      if (count < 0 || count > sizes.maxCount()) {
        throw wrong(
            where + "rank %d has the count %d for rank %d".formatted(source, count, target),
            "pass 0 to %d, or create the exchange for more".formatted(sizes.maxCount()));
      }
    }
  }

  private void checkSums(String where, boolean gathers, int rank) {
    int n = sizes.nRanks();
    long sent = gathers ? count(rank, 0) : sentBefore(rank, n);
    long room = word(rank, n);
    if (sent > room) {
      throw wrong(
          where
              + "rank %d sends %d elements, more than its send buffer has, %d"
                  .formatted(rank, sent, room),
          "pass a larger buffer or smaller counts");
    }
    long received = receivedBefore(n, rank);
    if (received > sizes.maxReceived()) {
      throw wrong(
          where
              + "rank %d would receive %d elements, more than the exchange allows, %d"
                  .formatted(rank, received, sizes.maxReceived()),
          "pass smaller counts, or create the exchange for more");
    }
  }

  private static InvalidArgumentException wrong(String problem, String remedy) {
    return new InvalidArgumentException(ErrorId.COUNT, problem, remedy);
  }

  @Override
  public void close() {
    own.close();
    all.close();
  }
}
