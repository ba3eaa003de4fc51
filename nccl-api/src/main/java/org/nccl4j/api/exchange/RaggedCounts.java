package org.nccl4j.api.exchange;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
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
 * ranks. A rank's row has the elements of its send buffer, and what tells calls apart: the number
 * of the exchange with the kind of the call, and the shape of a reduction. Behind them are its
 * counts as they are in device memory, in room for longs: rows of all exchanges are as long.
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

  // The longs before the counts.
  private static final int ROOM = 0;
  private static final int CALL = 1;
  private static final int REDUCTION = 2;
  private static final int FACTS = 3;

  private final OperationDispatcher dispatcher;
  private final RaggedKernels.Sizes sizes;
  private final int exchange;
  private final DeviceMemory own;
  private final DeviceMemory all;
  private final ByteBuffer facts;
  private final ByteBuffer rows;

  /** True if the last call had one count for all ranks. */
  private boolean gathers;

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
    facts = buffer((long) FACTS * Long.BYTES);
    rows = buffer(all.size());
  }

  private static ByteBuffer buffer(long bytes) {
    return ByteBuffer.allocateDirect(Math.toIntExact(bytes)).order(ByteOrder.nativeOrder());
  }

  private static int words(int nRanks) {
    return FACTS + nRanks;
  }

  /**
   * Brings this rank's counts to all. Waits once: for the stream, and with it for the other ranks.
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
    gathers = call == Call.ALL_GATHER;
    long bytes = (long) (gathers ? 1 : n) * sizes.countBytes();
    facts.putLong(ROOM * Long.BYTES, room);
    facts.putLong(CALL * Long.BYTES, (long) Call.ALL.length * exchange + call.ordinal());
    facts.putLong(REDUCTION * Long.BYTES, reduction);
    own.write(0, facts.clear());
    stream.copy(counts.slice(0, bytes), own.slice((long) FACTS * Long.BYTES, bytes));
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

  private int row(int rank) {
    return rank * words(sizes.nRanks()) * Long.BYTES;
  }

  private long fact(int rank, int index) {
    return rows.getLong(row(rank) + index * Long.BYTES);
  }

  /** Elements from a rank to another. */
  long count(int source, int target) {
    int at = row(source) + FACTS * Long.BYTES + (gathers ? 0 : target * sizes.countBytes());
    return sizes.wide() ? rows.getLong(at) : rows.getInt(at);
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
    long theirs = fact(rank, CALL);
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
    long shape = fact(rank, REDUCTION);
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
    long room = fact(rank, ROOM);
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
