package org.nccl4j.api;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.IntBuffer;
import org.nccl4j.api.group.OperationDispatcher;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.kernel.CallShape;
import org.nccl4j.device.kernel.ExpertSizes;
import org.nccl4j.operation.Operation;

/**
 * The tables of a dispatch by sends and receives, which an all-gather brings to the hosts of all
 * ranks. A table is a rank's number of tokens, and behind it its expert numbers by token and k.
 */
final class ExpertTables implements AutoCloseable {
  private final OperationDispatcher queue;
  private final ExpertSizes sizes;
  private final DeviceMemory own;
  private final DeviceMemory all;
  private final ByteBuffer ints;
  private final ByteBuffer tables;
  private final float[] weights;

  ExpertTables(OperationDispatcher queue, ExpertSizes sizes, DeviceMemory own, DeviceMemory all) {
    this.queue = queue;
    this.sizes = sizes;
    this.own = own;
    this.all = all;
    ints = buffer(own.size());
    tables = buffer(all.size());
    weights = new float[Math.toIntExact(sizes.entries())];
  }

  static ByteBuffer buffer(long bytes) {
    return ByteBuffer.allocateDirect(Math.toIntExact(bytes)).order(ByteOrder.nativeOrder());
  }

  /** Bytes of a rank's own table. */
  static long ownBytes(ExpertSizes sizes) {
    return (1 + sizes.entries()) * Integer.BYTES;
  }

  /** Bytes of the tables of all ranks. */
  static long allBytes(ExpertSizes sizes) {
    return sizes.nRanks() * ownBytes(sizes);
  }

  /**
   * Brings this rank's table to all. Waits for the stream and for the other ranks, and so for
   * everything that this rank has launched before.
   *
   * @return the tables, by rank
   * @throws InvalidArgumentException for an expert that does not exist; then nothing is sent
   */
  IntBuffer exchange(DeviceMemory experts, DeviceMemory factors, int count, DeviceStream stream) {
    stream.synchronize();
    readExperts(experts, count);
    own.write(0, ints);
    tables.clear().limit(count * sizes.topK() * Float.BYTES);
    factors.read(0, tables);
    tables.flip().asFloatBuffer().get(weights, 0, count * sizes.topK());
    queue.call(
        CallShape.of(Operation.ALL_GATHER, DataType.INT32, RedOp.SUM, 0),
        own,
        all,
        1 + sizes.entries(),
        stream);
    stream.synchronize();
    tables.clear();
    all.read(0, tables);
    return tables.clear().asIntBuffer();
  }

  /** Weights of the own entries of the last dispatch. */
  float weight(int entry) {
    return weights[entry];
  }

  /** Reads expert numbers into a table, and refuses those that do not exist. */
  private void readExperts(DeviceMemory experts, int count) {
    int entries = count * sizes.topK();
    ints.clear();
    ints.putInt(count).limit((1 + entries) * Integer.BYTES);
    experts.read(0, ints);
    ints.flip();
    for (int entry = 0; entry < entries; entry++) {
      int expert = ints.getInt((1 + entry) * Integer.BYTES);
      if (expert < -1 || expert >= sizes.experts()) {
        throw new InvalidArgumentException(
            ErrorId.ARGUMENT,
            "token %d has the expert %d as number %d of its experts"
                .formatted(entry / sizes.topK(), expert, entry % sizes.topK()),
            "pass 0 to %d, or -1 for no expert".formatted(sizes.experts() - 1));
      }
    }
  }

  @Override
  public void close() {
    own.close();
    all.close();
  }
}
