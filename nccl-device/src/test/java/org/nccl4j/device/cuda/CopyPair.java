package org.nccl4j.device.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.List;
import org.nccl4j.device.DataType;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.cuda.window.DirectLayout;
import org.nccl4j.device.kernel.LaunchOptions;
import org.nccl4j.device.kernel.WindowWork;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;

/** Two ranks whose buffers hold their number, and after it for each rank one more. */
public final class CopyPair implements AutoCloseable {
  public final GpuRanks ranks;
  public final DirectRanks windows;
  final int bytes;

  public CopyPair(Duration deadline, int bytes) {
    this(deadline, bytes, LaunchOptions.PLAIN);
  }

  public CopyPair(Duration deadline, int bytes, LaunchOptions options) {
    this.bytes = bytes;
    ranks = new GpuRanks(2, options, deadline);
    windows = new DirectRanks(ranks, Math.max(1 << 20, 2 * bytes));
    for (int rank = 0; rank < 2; rank++) {
      go(rank);
      for (int part = 0; part < 2; part++) {
        windows.send.get(rank).slice(part * bytes, bytes).fill((byte) (10 * (rank + 1) + part));
      }
    }
  }

  public void launch(int rank, Operation operation, Algorithm way) {
    var communicator = ranks.communicators.get(rank);
    WindowWork work =
        new WindowWork(
            operation,
            way,
            DataType.INT8,
            RedOp.SUM,
            1,
            bytes,
            way.needsSend(operation) ? windows.sends.get(rank) : null,
            way.needsRecv(operation) ? windows.recvs.get(rank) : null,
            0);
    communicator.launch(
        communicator.prepare(work),
        windows.send.get(rank),
        windows.recv.get(rank),
        ranks.streams.get(rank));
  }

  /** Copies beside a kernel may begin. */
  private void go(int rank) {
    word(rank, 0, 1000);
  }

  /** Writes a kernel's word of those beside copy engines, since no kernel runs here. */
  public void word(int rank, int at, int value) {
    ByteBuffer word = ByteBuffer.allocateDirect(4).order(ByteOrder.nativeOrder()).putInt(0, value);
    windows.resources.get(rank).write(DirectLayout.of(2).engine() + at, word);
    windows.resources.get(rank).read(0, ByteBuffer.allocateDirect(4)); // it has arrived
  }

  /** An all-reduce of a rank by so few blocks that engines bring its sums to the other rank. */
  public void launchGiving(int rank) {
    var communicator = ranks.communicators.get(rank);
    WindowWork work =
        new WindowWork(
            Operation.ALL_REDUCE,
            Algorithm.COPY_ENGINE,
            DataType.INT8,
            RedOp.SUM,
            0,
            bytes,
            windows.sends.get(rank),
            windows.recvs.get(rank),
            0,
            /* mostBlocks= */ 8,
            /* apart= */ false);
    communicator.launch(
        communicator.prepare(work),
        windows.send.get(rank),
        windows.recv.get(rank),
        ranks.streams.get(rank));
  }

  public void launch(Operation operation, Algorithm way) {
    launch(0, operation, way);
    launch(1, operation, way);
  }

  /** The two parts of a rank's receive buffer. */
  public List<Integer> parts(int rank) {
    ByteBuffer got = ByteBuffer.allocateDirect(2 * bytes);
    windows.recv.get(rank).read(0, got);
    assertEquals(got.get(0), got.get(bytes - 1));
    assertEquals(got.get(bytes), got.get(2 * bytes - 1));
    return List.of((int) got.get(0), (int) got.get(bytes));
  }

  @Override
  public void close() {
    windows.close();
    ranks.close();
  }
}
