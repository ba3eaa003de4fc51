package org.nccl4j.api.exchange;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.LongBuffer;
import org.nccl4j.api.group.OperationDispatcher;
import org.nccl4j.api.init.CommunicatorState;
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
 * The counts of a call in which the hosts take part, which an all-gather brings to those of all
 * ranks. A rank's row has its count for each rank, the elements of its send buffer, and what tells
 * calls apart: the number of the exchange with the kind of the call, and the shape of a reduction.
 */
public final class RaggedCounts implements AutoCloseable {
  /** The kinds of calls; the ordinal is what ranks compare. */
  enum Call {
    ALL_TO_ALL("an all-to-all"),
    ALL_GATHER("an all-gather"),
    REDUCE_SCATTER("a reduce-scatter");

    private static final Call[] ALL = values();

    private final String text;

    Call(String text) {
      this.text = text;
    }
  }

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
   * @throws org.nccl4j.device.NcclException if there is no memory for them
   */
  public static RaggedCounts create(
      CommunicatorState state,
      OperationDispatcher dispatcher,
      RaggedKernels.Sizes sizes,
      int exchange) {
    long row = (long) words(sizes.nRanks()) * Long.BYTES;
    DeviceMemory[] made = ExchangeMemory.allocateAll(state.device(), row, sizes.nRanks() * row);
    return new RaggedCounts(dispatcher, sizes, exchange, made[0], made[1]);
  }

  private RaggedCounts(
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
    return nRanks + 3;
  }

  /**
   * Brings this rank's counts to all. Waits for the stream and for the other ranks.
   *
   * @param where the begin of errors: the call, rank and communicator
   * @param call an all-gather has one count
   * @param reduction the shape of a reduction, on which ranks agree; 0 for none
   * @param room elements of the send buffer
   * @throws InvalidArgumentException on all ranks, for counts of one that are not allowed; then
   *     nothing is sent
   * @throws InvalidUsageException on all ranks, if they are in different calls
   */
  void exchange(
      String where,
      Call call,
      long reduction,
      DeviceMemory counts,
      long room,
      DeviceStream stream) {
    int n = sizes.nRanks();
    stream.synchronize();
    read(call, counts);
    row.putLong(n * Long.BYTES, room);
    row.putLong((n + 1) * Long.BYTES, (long) Call.ALL.length * exchange + call.ordinal());
    row.putLong((n + 2) * Long.BYTES, reduction);
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
      checkCall(where, call, reduction, rank);
    }
    for (int rank = 0; rank < n; rank++) {
      checkCounts(where, call, rank);
    }
    for (int rank = 0; rank < n; rank++) {
      checkSums(where, call, rank);
    }
  }

  private void read(Call call, DeviceMemory counts) {
    boolean gathers = call == Call.ALL_GATHER;
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

  private void checkCall(String where, Call call, long reduction, int rank) {
    long theirs = word(rank, sizes.nRanks() + 1);
    long kinds = Call.ALL.length;
    if (theirs != kinds * exchange + call.ordinal()) {
      throw new InvalidUsageException(
          ErrorId.CALLS_DIFFER,
          where
              + "rank %d is in %s of exchange %d, and this rank in %s of exchange %d, in the order of their creation"
                  .formatted(
                      rank,
                      Call.ALL[(int) (theirs % kinds)].text,
                      theirs / kinds,
                      call.text,
                      exchange),
          "make the calls of a communicator's exchanges in the same order on all ranks");
    }
    long shape = word(rank, sizes.nRanks() + 2);
    if (shape != reduction) {
      throw new InvalidUsageException(
          ErrorId.CALLS_DIFFER,
          where
              + "rank %d reduces %s, and this rank %s"
                  .formatted(rank, RaggedReduction.text(shape), RaggedReduction.text(reduction)),
          "pass the same type and operator on all ranks");
    }
  }

  private void checkCounts(String where, Call call, int source) {
    for (int target = 0; target < sizes.nRanks(); target++) {
      long count = count(source, target);
      if (count < 0 || count > sizes.maxCount()) {
        throw wrong(
            where + "rank %d has the count %d for rank %d".formatted(source, count, target),
            "pass 0 to %d, or create the exchange for more".formatted(sizes.maxCount()));
      }
      if (call == Call.REDUCE_SCATTER && count != count(0, target)) {
        throw wrong(
            where
                + "rank %d has the count %d for rank %d, and rank 0 %d"
                    .formatted(source, count, target, count(0, target)),
            "pass the same counts on all ranks, since parts of one length are added");
      }
    }
  }

  private void checkSums(String where, Call call, int rank) {
    int n = sizes.nRanks();
    long sent = call == Call.ALL_GATHER ? count(rank, 0) : sentBefore(rank, n);
    long room = word(rank, n);
    if (sent > room) {
      throw wrong(
          where
              + "rank %d sends %d elements, more than its send buffer has, %d"
                  .formatted(rank, sent, room),
          "pass a larger buffer or smaller counts");
    }
    long received = call == Call.REDUCE_SCATTER ? count(0, rank) : receivedBefore(n, rank);
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
