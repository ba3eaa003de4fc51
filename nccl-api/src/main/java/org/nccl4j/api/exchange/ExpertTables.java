package org.nccl4j.api.exchange;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.IntBuffer;
import org.nccl4j.api.group.OperationDispatcher;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.kernel.CallShape;
import org.nccl4j.device.kernel.ExpertSizes;
import org.nccl4j.operation.Operation;

/**
 * The tables of a dispatch by sends and receives, which an all-gather brings to the hosts of all
 * ranks. A table is a rank's number of tokens, behind it its expert numbers by token and k, where
 * hosts add outputs the weights of these, and at its end the number of the exchange, which tells
 * exchanges of equal sizes apart.
 */
final class ExpertTables implements AutoCloseable {
  private final OperationDispatcher dispatcher;
  private final String where;
  private final ExpertSizes sizes;
  private final DeviceMemory own;
  private final DeviceMemory all;
  private final ByteBuffer ints;
  private final ByteBuffer tables;
  private final ByteBuffer numbers;
  private final float[] weights;
  private final boolean weighted;

  /**
   * Memory of the tables.
   *
   * @param own of {@link #ownBytes}
   * @param all of {@link #allBytes}
   * @param hostOwn of so many bytes too
   * @param hostAll of so many bytes too
   */
  record Memory(DeviceMemory own, DeviceMemory all, ByteBuffer hostOwn, ByteBuffer hostAll) {
    void close() {
      own.close();
      all.close();
    }
  }

  /**
   * Tables of one exchange.
   *
   * @param where the begin of errors: the call, rank and communicator
   * @param exchange its number in the communicator, the same on all ranks
   * @param weighted true if the tables have weights
   */
  ExpertTables(
      OperationDispatcher dispatcher,
      String where,
      ExpertSizes sizes,
      int exchange,
      boolean weighted,
      Memory memory) {
    this.dispatcher = dispatcher;
    this.where = where;
    this.sizes = sizes;
    this.weighted = weighted;
    own = memory.own;
    all = memory.all;
    ints = memory.hostOwn;
    tables = memory.hostAll;
    numbers = ByteBuffer.allocate(sizes.nRanks() * Long.BYTES).order(ByteOrder.nativeOrder());
    weights = new float[Math.toIntExact(sizes.entries())];
    ints.putInt(exchange).flip();
    own.write(own.size() - Integer.BYTES, ints);
  }

  /** Words of a table, which may have weights. */
  static int words(ExpertSizes sizes, boolean weighted) {
    return Math.toIntExact(1 + (weighted ? 2 : 1) * sizes.entries() + 1);
  }

  /** The word of an entry's weight in a table that begins at a word. */
  static int weightAt(ExpertSizes sizes, int table, int entry) {
    return Math.toIntExact(table + 1 + sizes.entries() + entry);
  }

  /**
   * Memory of the host for a table or a list.
   *
   * @throws SystemErrorException if Java's direct memory is exhausted
   */
  static ByteBuffer buffer(long bytes) {
    try {
      return ByteBuffer.allocateDirect(Math.toIntExact(bytes)).order(ByteOrder.nativeOrder());
    } catch (OutOfMemoryError e) {
      throw new SystemErrorException(
          ErrorId.MEMORY,
          "Java has no %d bytes of direct memory for a table of tokens: %s"
              .formatted(bytes, e.getMessage()),
          "raise -XX:MaxDirectMemorySize, or create the exchange for fewer tokens",
          e);
    }
  }

  /** Bytes of a rank's own table. */
  static long ownBytes(ExpertSizes sizes, boolean weighted) {
    return (long) words(sizes, weighted) * Integer.BYTES;
  }

  /** Bytes of the tables of all ranks. */
  static long allBytes(ExpertSizes sizes, boolean weighted) {
    return sizes.nRanks() * ownBytes(sizes, weighted);
  }

  /**
   * Brings this rank's table to all. The stream makes the table, so that the host waits once: for
   * the stream and for the other ranks, and so for everything that this rank has launched before.
   *
   * @return the tables, by rank
   * @throws InvalidArgumentException on all ranks, if any rank passes an expert that does not exist
   * @throws InvalidUsageException on all ranks, if they are in dispatches of different exchanges
   */
  IntBuffer exchange(DeviceMemory experts, DeviceMemory factors, int count, DeviceStream stream) {
    // The table of the dispatch before has been gathered: its call has waited for that.
    own.write(0, ints.clear().putInt(count).flip());
    copy(experts, count, 1, stream);
    if (weighted) {
      copy(factors, count, weightAt(sizes, 0, 0), stream);
    }
    dispatcher.call(
        CallShape.of(Operation.ALL_GATHER, DataType.INT32, RedOp.SUM, 0),
        own,
        all,
        words(sizes, weighted),
        stream);
    stream.synchronize();
    tables.clear().limit(count * sizes.topK() * Float.BYTES);
    factors.read(0, tables);
    tables.flip().asFloatBuffer().get(weights, 0, count * sizes.topK());
    tables.clear();
    all.read(0, tables);
    IntBuffer received = tables.clear().asIntBuffer();
    checkExchanges(received);
    checkExperts(received);
    return received;
  }

  /**
   * Brings a number of this rank to all, after {@link #exchange} and on the same stream. Waits for
   * the other ranks.
   *
   * @return the numbers, by rank
   */
  long[] gather(long number, DeviceStream stream) {
    own.write(0, numbers.clear().putLong(number).flip());
    dispatcher.call(
        CallShape.of(Operation.ALL_GATHER, DataType.INT64, RedOp.SUM, 0), own, all, 1, stream);
    stream.synchronize();
    all.read(0, numbers.clear());
    long[] ofRanks = new long[sizes.nRanks()];
    numbers.clear().asLongBuffer().get(ofRanks);
    return ofRanks;
  }

  private void checkExchanges(IntBuffer received) {
    int words = words(sizes, weighted);
    int first = received.get(words - 1);
    for (int rank = 1; rank < sizes.nRanks(); rank++) {
      int other = received.get((rank + 1) * words - 1);
      if (other != first) {
        throw new InvalidUsageException(
            ErrorId.CALLS_DIFFER,
            where
                + "rank 0 dispatches by exchange %d and rank %d by exchange %d, in the order of their creation"
                    .formatted(first, rank, other),
            "call the exchanges of a communicator in the same order on all ranks");
      }
    }
  }

  /** Weights of the own entries of the last dispatch, which has fewer than there may be. */
  float[] weights() {
    return weights;
  }

  /** Copies an entry of each of some tokens' experts into the table, from a word on. */
  private void copy(DeviceMemory from, int count, int word, DeviceStream stream) {
    long bytes = (long) count * sizes.topK() * Integer.BYTES;
    if (bytes > 0) {
      stream.copy(from.slice(0, bytes), own.slice((long) word * Integer.BYTES, bytes));
    }
  }

  /** After the all-gather, so that no rank waits for one that throws. */
  private void checkExperts(IntBuffer received) {
    int words = words(sizes, weighted);
    for (int rank = 0; rank < sizes.nRanks(); rank++) {
      int table = rank * words;
      int entries = received.get(table) * sizes.topK();
      for (int entry = 0; entry < entries; entry++) {
        int expert = received.get(table + 1 + entry);
        if (expert < -1 || expert >= sizes.experts()) {
          throw new InvalidArgumentException(
              ErrorId.ARGUMENT,
              where
                  + "token %d of rank %d has the expert %d as number %d of its experts"
                      .formatted(entry / sizes.topK(), rank, expert, entry % sizes.topK()),
              "pass 0 to %d, or -1 for no expert".formatted(sizes.experts() - 1));
        }
      }
    }
  }

  @Override
  public void close() {
    own.close();
    all.close();
  }
}
