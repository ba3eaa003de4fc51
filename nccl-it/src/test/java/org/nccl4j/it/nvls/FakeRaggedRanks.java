package org.nccl4j.it.nvls;

import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Devices;
import org.nccl4j.api.RaggedConfig;
import org.nccl4j.api.RaggedExchange;
import org.nccl4j.api.observe.flight.FlightReader;
import org.nccl4j.api.observe.flight.RankReport;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.cuda.CudaGraph;
import org.nccl4j.device.cuda.CudaStream;
import org.nccl4j.operation.Operation;

/**
 * A program that launches a ragged exchange on all GPUs, and prints what the flight recorder has of
 * it.
 */
final class FakeRaggedRanks {
  /** No other allocation has this size: one is made after the creation of the communicators. */
  static final long MARK_BYTES = 125 << 10;

  private static final RaggedConfig SIZES = new RaggedConfig(12, 50, 70, DataType.INT64);

  private FakeRaggedRanks() {}

  /** Arguments: "create" to create the exchange alone and print errors; or none. */
  public static void main(String[] arguments) throws Exception {
    List<Communicator> ranks = Communicator.initAll(List.copyOf(Devices.cuda().list()));
    ranks.get(0).device().allocate(MARK_BYTES).close();
    List<Thread> threads = new ArrayList<>();
    for (Communicator rank : ranks) {
      threads.add(
          new Thread(
              List.of(arguments).contains("create") ? () -> create(rank) : () -> launch(rank)));
    }
    threads.forEach(Thread::start);
    for (Thread thread : threads) {
      thread.join();
    }
    for (RankReport report : FlightReader.ofThisProcess(Operation.keys())) {
      for (RankReport.Operation operation : report.operations()) {
        System.out.printf("rank %d: %s%n", report.rank(), operation.text());
      }
    }
    ranks.forEach(Communicator::close);
  }

  private static void create(Communicator comm) {
    try (RaggedExchange exchange = comm.createRaggedExchange(SIZES)) {
      System.out.printf("rank %d: created, %b%n", comm.rank(), exchange.isCapturable());
    } catch (NcclException e) {
      System.out.printf(
          "rank %d: %s: %s%n", comm.rank(), e.getClass().getSimpleName(), e.getMessage());
    }
  }

  private static void launch(Communicator comm) {
    try (CudaStream stream = (CudaStream) comm.device().createStream();
        DeviceMemory data = comm.device().allocate(4096);
        RaggedExchange exchange = comm.createRaggedExchange(SIZES)) {
      try {
        exchange.allToAll(data, data.slice(4, 100), stream);
      } catch (InvalidArgumentException e) {
        boolean right =
            Pattern.compile("counts begins at 0x\\w+4, which is no multiple of 8")
                .matcher(e.problem())
                .find();
        System.out.printf("rank %d: refused %b%n", comm.rank(), right);
      }
      exchange.allToAll(data.slice(1, 100), data, stream);
      exchange.allGather(data, data.slice(8, 8), stream);
      stream.beginCapture();
      exchange.allToAll(data, exchange.receivedCounts(), stream);
      try (CudaGraph graph = stream.endCapture()) {
        graph.launch(stream);
        stream.synchronize();
      }
      refuseCapture(exchange, data, stream);
      combine(comm, stream, data);
    }
  }

  /** An exchange that has room for the parts of all ranks; its second call is captured. */
  private static void combine(Communicator comm, CudaStream stream, DeviceMemory data) {
    RaggedConfig sizes = new RaggedConfig(12, 50, 50L * comm.nRanks(), DataType.INT64);
    try (RaggedExchange exchange = comm.createRaggedExchange(sizes)) {
      System.out.printf(
          "rank %d: combines %b%n", comm.rank(), exchange.isReduceScatterCapturable());
      exchange.reduceScatter(data, data, DataType.FLOAT32, RedOp.SUM, stream);
      stream.beginCapture();
      exchange.reduceScatter(data, data, DataType.INT8, RedOp.MAX, stream);
      try (CudaGraph graph = stream.endCapture()) {
        graph.launch(stream);
        stream.synchronize();
      }
    }
  }

  /** The host takes part in a reduce-scatter whose parts have no room on a rank. */
  private static void refuseCapture(RaggedExchange exchange, DeviceMemory data, CudaStream stream) {
    stream.beginCapture();
    try {
      exchange.reduceScatter(data, data, DataType.FLOAT32, RedOp.SUM, stream);
    } catch (InvalidUsageException e) {
      System.out.printf("refused: %s%n", e.id());
    }
    stream.endCapture().close();
  }
}
