package org.nccl4j.it.nvls;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.cuda.CudaGraph;
import org.nccl4j.device.cuda.CudaStream;
import org.nccl4j.operation.Operation;

/**
 * A program whose thread calls for two ranks, in groups of several collectives. Argument: "shared"
 * for ranks that share a GPU.
 */
final class FakeGroupRanks {
  /** No other allocation has this size; one comes before each step and one after the last. */
  static final long MARK_BYTES = 125 << 10;

  static final int OPERATIONS = 10;
  private static final int COUNT = 100;

  private final List<Communicator> ranks;
  private final List<DeviceMemory> from = new ArrayList<>();
  private final List<DeviceMemory> to = new ArrayList<>();
  private final List<CudaStream> streams = new ArrayList<>();

  private FakeGroupRanks(List<Device> devices) {
    ranks = Communicator.initAll(devices);
    for (Device device : devices) {
      from.add(device.allocate(4L * COUNT * OPERATIONS));
      to.add(device.allocate(4L * COUNT * OPERATIONS));
      streams.add((CudaStream) device.createStream());
    }
  }

  public static void main(String[] arguments) {
    List<Device> devices = List.copyOf(Devices.cuda().list());
    boolean shared = arguments.length > 0 && arguments[0].equals("shared");
    new FakeGroupRanks(shared ? Collections.nCopies(2, devices.get(0)) : devices).run(!shared);
  }

  private void run(boolean captures) {
    System.out.println(ranks.get(0).explain(Operation.ALL_REDUCE, COUNT, DataType.FLOAT32));
    Runnable sums = () -> forAll(this::apart);
    Group.run(sums); // connects the ranks
    streams.forEach(DeviceStream::synchronize);
    mark();
    Group.run(sums);
    mark();
    sums.run();
    mark();
    Group.run(() -> forAll(this::chained));
    mark();
    if (captures) {
      streams.forEach(CudaStream::beginCapture);
      Group.run(sums);
      for (CudaStream stream : streams) {
        try (CudaGraph graph = stream.endCapture()) {
          graph.launch(stream);
        }
      }
    }
    mark();
    streams.forEach(DeviceStream::close);
    from.forEach(DeviceMemory::close);
    to.forEach(DeviceMemory::close);
    ranks.forEach(Communicator::close);
  }

  private interface OfRank {
    void call(int rank);
  }

  private void forAll(OfRank calls) {
    for (int rank = 0; rank < ranks.size(); rank++) {
      calls.call(rank);
    }
  }

  private void mark() {
    ranks.get(0).device().allocate(MARK_BYTES).close();
  }

  /** Each sum is apart from the others. */
  private void apart(int rank) {
    for (int i = 0; i < OPERATIONS; i++) {
      sum(rank, part(from, rank, i), part(to, rank, i));
    }
  }

  /** Each sum is the input of the next one. */
  private void chained(int rank) {
    for (int i = 0; i + 1 < OPERATIONS; i++) {
      sum(rank, part(from, rank, i), part(from, rank, i + 1));
    }
  }

  private static DeviceMemory part(List<DeviceMemory> of, int rank, int number) {
    return of.get(rank).slice(4L * COUNT * number, 4L * COUNT);
  }

  private void sum(int rank, DeviceMemory send, DeviceMemory recv) {
    DeviceStream stream = streams.get(rank);
    ranks.get(rank).allReduce(send, recv, COUNT, DataType.FLOAT32, RedOp.SUM, stream);
  }
}
