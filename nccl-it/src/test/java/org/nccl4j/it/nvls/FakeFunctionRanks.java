package org.nccl4j.it.nvls;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.api.observe.flight.FlightReader;
import org.nccl4j.api.observe.flight.RankReport;
import org.nccl4j.device.CudaFunctor;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.ReductionOperator;
import org.nccl4j.operation.Operation;

/**
 * A program whose one thread reduces by users' functions on all GPUs, and prints what the flight
 * recorder has of it, and errors.
 */
final class FakeFunctionRanks {
  /** No other allocation has this size: one is made after the creation of the communicators. */
  static final long MARK_BYTES = 125 << 10;

  static final int FEW = 256;
  static final int MANY = 1 << 22;

  private FakeFunctionRanks() {}

  private static ReductionOperator floats(String name, String source) {
    return ReductionOperator.function(name, DataType.FLOAT32)
        .onCuda(CudaFunctor.ofSource(name, source))
        .build();
  }

  /** No arguments. */
  public static void main(String[] arguments) {
    List<Communicator> ranks = Communicator.initAll(List.copyOf(Devices.cuda().list()));
    int n = ranks.size();
    List<DeviceStream> streams = new ArrayList<>();
    List<DeviceMemory> data = new ArrayList<>();
    for (Communicator rank : ranks) {
      streams.add(rank.device().createStream());
      data.add(rank.device().allocate(4L * MANY + 64));
    }
    ranks.get(0).device().allocate(MARK_BYTES).close();
    ReductionOperator wrong = floats("Wrong", "\n#error\n");
    report(() -> ranks.get(0).prepare(Operation.ALL_REDUCE, 1, DataType.FLOAT32, wrong));
    ReductionOperator structs =
        ReductionOperator.functionOfStructs("structs", 24)
            .onCuda(
                CudaFunctor.ofImage("Structs", "functor image".getBytes(StandardCharsets.US_ASCII)))
            .build();
    report(
        () ->
            ranks
                .get(0)
                .allReduce(
                    data.get(0).slice(4, 48),
                    data.get(0),
                    48,
                    DataType.UINT8,
                    structs,
                    streams.get(0)));
    ReductionOperator first = floats("First", "struct First {};");
    ReductionOperator last = floats("Last", "struct Last {};");
    Group.run(
        () -> {
          for (int r = 0; r < n; r++) {
            Communicator rank = ranks.get(r);
            DeviceMemory both = data.get(r);
            DeviceStream stream = streams.get(r);
            rank.allReduce(both, both, FEW, DataType.FLOAT32, first, stream);
            rank.allReduce(both, both, MANY, DataType.FLOAT32, first, stream);
            rank.allReduce(both, both, MANY - 1, DataType.FLOAT32, last, stream);
            rank.reduce(both, both, MANY, DataType.FLOAT32, last, 1, stream);
            rank.reduceScatter(both, both, FEW, DataType.FLOAT32, last, stream);
            rank.allReduce(both, both, 48, DataType.UINT8, structs, stream);
          }
        });
    streams.forEach(DeviceStream::synchronize);
    for (RankReport report : FlightReader.ofThisProcess(Operation.keys())) {
      for (RankReport.Operation operation : report.operations()) {
        System.out.printf(
            "rank %d: %s, %d bytes%n", report.rank(), operation.text(), operation.bytes());
      }
    }
    data.forEach(DeviceMemory::close);
    streams.forEach(DeviceStream::close);
    ranks.forEach(Communicator::close);
  }

  private static void report(Runnable call) {
    try {
      call.run();
    } catch (NcclException e) {
      System.out.println(e.getMessage().replace('\n', ' '));
    }
  }
}
