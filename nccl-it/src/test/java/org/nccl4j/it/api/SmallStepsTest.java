package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.function.IntUnaryOperator;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.api.Communicator;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;

/**
 * Collectives of up to 300 bytes a rank, each size after the other on the same connections, in
 * buffers of any alignment. One rank goes ahead of the others by more steps than a connection has
 * slots, so that slots of each kind are filled again.
 */
@Timeout(600)
class SmallStepsTest {
  private static final int MOST_BYTES = 300;

  /** More than there are slots for the smallest steps. */
  private static final int AHEAD = 70;

  @ParameterizedTest
  @CsvSource({"2,INT8", "2,FLOAT32", "2,INT64", "2,FLOAT64", "3,INT8", "3,FLOAT32"})
  void everySizeArrivesWhole(int nRanks, DataType type) throws Exception {
    try (Ranks ranks = new Ranks(nRanks)) {
      ranks.run((comm, stream) -> new Rank(comm, stream, type).run());
    }
  }

  /** One rank's calls; numbers are small enough that sums of all types are exact. */
  private static final class Rank {
    final Communicator comm;
    final DeviceStream stream;
    final DataType type;
    final int ranks;
    int count;

    Rank(Communicator comm, DeviceStream stream, DataType type) {
      this.comm = comm;
      this.stream = stream;
      this.type = type;
      this.ranks = comm.nRanks();
    }

    void run() {
      int bytes = ranks * MOST_BYTES + 16;
      try (DeviceMemory from = comm.device().allocate(bytes);
          DeviceMemory to = comm.device().allocate(bytes)) {
        for (count = 1; count * type.bytes() <= MOST_BYTES; count++) {
          oneWay(part(from, count % 9, count), part(to, count % 7, count));
          exchanges(from, to);
        }
      }
    }

    private DeviceMemory part(DeviceMemory memory, int offset, int elements) {
      return memory.slice(offset, (long) elements * type.bytes());
    }

    private void oneWay(DeviceMemory send, DeviceMemory recv) {
      int me = comm.rank();
      for (int root = 0; root < ranks; root++) {
        int from = root;
        write(send, count, i -> number(me, i));
        for (int n = 0; n < AHEAD; n++) {
          comm.broadcast(send, recv, count, type, root, stream);
        }
        expect("broadcast", recv, count, i -> number(from, i));
        for (int n = 0; n < AHEAD; n++) {
          comm.reduce(send, recv, count, type, RedOp.SUM, root, stream);
        }
        stream.synchronize();
        if (me == root) {
          expect("reduce", recv, count, this::sum);
        }
      }
    }

    private void exchanges(DeviceMemory from, DeviceMemory to) {
      int me = comm.rank();
      DeviceMemory send = part(from, count % 5, count);
      DeviceMemory recv = part(to, count % 3, count);
      DeviceMemory sendAll = part(from, count % 5, ranks * count);
      DeviceMemory recvAll = part(to, count % 3, ranks * count);
      write(sendAll, ranks * count, i -> number(me, i));
      comm.allReduce(send, recv, count, type, RedOp.SUM, stream);
      expect("all-reduce", recv, count, this::sum);
      comm.allGather(send, recvAll, count, type, stream);
      expect("all-gather", recvAll, ranks * count, i -> number(i / count, i % count));
      comm.reduceScatter(sendAll, recv, count, type, RedOp.SUM, stream);
      expect("reduce-scatter", recv, count, i -> sum(me * count + i));
      comm.allToAll(sendAll, recvAll, count, type, stream);
      expect("all-to-all", recvAll, ranks * count, i -> number(i / count, me * count + i % count));
    }

    private int number(int rank, int element) {
      return (rank * 5 + element * 3 + count) % 31;
    }

    private int sum(int element) {
      int sum = 0;
      for (int rank = 0; rank < ranks; rank++) {
        sum += number(rank, element);
      }
      return sum;
    }

    private byte[] bytes(int elements, IntUnaryOperator numbers) {
      ByteBuffer buffer = ByteBuffer.allocate(elements * type.bytes());
      buffer.order(ByteOrder.nativeOrder());
      for (int i = 0; i < elements; i++) {
        int number = numbers.applyAsInt(i);
        switch (type) {
          case INT8 -> buffer.put((byte) number);
          case FLOAT32 -> buffer.putFloat(number);
          case INT64 -> buffer.putLong(number);
          case FLOAT64 -> buffer.putDouble(number);
          default -> throw new IllegalArgumentException(type.label());
        }
      }
      return buffer.array();
    }

    private void write(DeviceMemory memory, int elements, IntUnaryOperator numbers) {
      memory.write(0, ByteBuffer.wrap(bytes(elements, numbers)));
    }

    private void expect(String what, DeviceMemory memory, int elements, IntUnaryOperator numbers) {
      stream.synchronize();
      byte[] found = new byte[elements * type.bytes()];
      memory.read(0, ByteBuffer.wrap(found));
      assertArrayEquals(
          bytes(elements, numbers), found, what + " of " + count + " " + type.label());
    }
  }
}
