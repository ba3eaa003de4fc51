package org.nccl4j.it.flink;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.UUID;
import org.apache.flink.api.common.TaskInfo;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.BoundedOneInput;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Devices;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;

/**
 * Adds up the vectors of a bounded stream. Every subtask is a rank: it adds its own vectors, and at
 * the end of the stream an all-reduce gives each the sum over all.
 */
public final class AllReduceOperator extends AbstractStreamOperator<float[]>
    implements OneInputStreamOperator<float[], float[]>, BoundedOneInput {
  private static final long serialVersionUID = 1L;
  private static final Duration PATIENCE = Duration.ofMinutes(1);

  private final int length;
  private transient float[] sum;
  private transient Communicator communicator;
  private transient CancelWatch watch;

  /**
   * Makes the operator of a job.
   *
   * @param length elements of every vector
   */
  public AllReduceOperator(int length) {
    this.length = length;
  }

  @Override
  public void open() throws Exception {
    super.open();
    sum = new float[length];
    TaskInfo task = getRuntimeContext().getTaskInfo();
    int rank = task.getIndexOfThisSubtask();
    int ranks = task.getNumberOfParallelSubtasks();
    communicator = Communicator.initRank(ranks, meet(rank, ranks), rank, Devices.host());
    watch = CancelWatch.start(communicator);
  }

  /** Asks the job's master until all subtasks have come. */
  private UniqueId meet(int rank, int ranks) throws Exception {
    String offered = rank == 0 ? UniqueId.create().toString() : "";
    var own = new Rendezvous.Arrival(rank, ranks, UUID.randomUUID().toString(), offered);
    String name = "nccl4j-" + getOperatorID();
    long end = System.nanoTime() + PATIENCE.toNanos();
    while (System.nanoTime() - end < 0) {
      String id =
          getRuntimeContext()
              .getGlobalAggregateManager()
              .updateGlobalAggregate(name, own, new Rendezvous());
      if (!id.isEmpty()) {
        return UniqueId.parse(id);
      }
      Thread.sleep(50);
    }
    throw new IllegalStateException(
        "not all of the %d subtasks came within %s".formatted(ranks, PATIENCE));
  }

  @Override
  public void processElement(StreamRecord<float[]> record) {
    float[] vector = record.getValue();
    for (int i = 0; i < length; i++) {
      sum[i] += vector[i];
    }
  }

  @Override
  public void endInput() {
    long bytes = (long) length * Float.BYTES;
    Device device = communicator.device();
    try (DeviceStream stream = device.createStream();
        DeviceMemory data = device.allocate(bytes)) {
      ByteBuffer copy = ByteBuffer.allocate((int) bytes).order(ByteOrder.nativeOrder());
      copy.asFloatBuffer().put(sum);
      data.write(0, copy);
      communicator.allReduce(data, data, length, DataType.FLOAT32, RedOp.SUM, stream);
      stream.synchronize();
      data.read(0, copy.clear());
      copy.clear().asFloatBuffer().get(sum);
    }
    output.collect(new StreamRecord<>(sum));
  }

  @Override
  public void close() throws Exception {
    if (watch != null) {
      communicator.close();
      watch.close();
    }
    super.close();
  }
}
