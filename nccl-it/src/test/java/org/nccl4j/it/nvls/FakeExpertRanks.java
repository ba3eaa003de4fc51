package org.nccl4j.it.nvls;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.regex.Pattern;
import org.nccl4j.api.CallOptions;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.ExpertConfig;
import org.nccl4j.api.ExpertExchange;
import org.nccl4j.api.UniqueId;
import org.nccl4j.api.observe.flight.FlightReader;
import org.nccl4j.api.observe.flight.RankReport;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.cuda.CudaStream;
import org.nccl4j.operation.Operation;

/**
 * A program that launches quantised sums and an exchange with experts on all GPUs, and prints what
 * the flight recorder has of them.
 */
final class FakeExpertRanks {
  /** No other allocation has this size: one is made after the creation of the communicators. */
  static final long MARK_BYTES = 125 << 10;

  private static final int COUNT = 4096;
  private static final ExpertConfig SIZES =
      new ExpertConfig(16, 256, 2, 8, DataType.BFLOAT16, false);

  private FakeExpertRanks() {}

  /**
   * Arguments: "create" to create the exchange alone and print errors; "hosts" for an exchange
   * alone whose ranks are on several hosts; "pairs" for quantised sums of two ranks a host; "drop"
   * for graphs that are not launched; "grow" for quantised sums alone; or none.
   */
  public static void main(String[] arguments) throws Exception {
    boolean onHosts = List.of(arguments).contains("hosts");
    boolean inPairs = List.of(arguments).contains("pairs");
    List<Communicator> ranks =
        onHosts || inPairs
            ? onHosts(inPairs ? 2 : 1)
            : Communicator.initAll(List.copyOf(Devices.cuda().list()));
    ranks.get(0).device().allocate(MARK_BYTES).close();
    List<Thread> threads = new ArrayList<>();
    for (Communicator rank : ranks) {
      Runnable all = onHosts ? () -> exchange(rank) : () -> launch(rank);
      Map<String, Runnable> alone =
          Map.of(
              "create",
              () -> create(rank),
              "drop",
              () -> drop(rank),
              "grow",
              () -> grow(rank),
              "pairs",
              () -> sum(rank));
      String first = arguments.length == 0 ? "" : arguments[0];
      threads.add(new Thread(alone.getOrDefault(first, all)));
    }
    threads.forEach(Thread::start);
    for (Thread thread : threads) {
      thread.join();
    }
    for (RankReport report : FlightReader.ofThisProcess(Operation.keys())) {
      for (RankReport.Operation operation : report.operations()) {
        System.out.printf(
            "rank %d: %s, %d bytes%n", report.rank(), operation.text(), operation.bytes());
      }
    }
    ranks.forEach(Communicator::close);
  }

  private static List<Communicator> onHosts(int ofHost) {
    CommunicatorConfig config =
        CommunicatorConfig.defaults()
            .with("NCCL_SOCKET_IFNAME", "lo")
            .with("NCCL_P2P_DISABLE", "1"); // else the process's own memory would connect them
    List<? extends Device> devices = Devices.cuda().list();
    UniqueId id = UniqueId.create(config);
    List<CompletableFuture<Communicator>> joining = new ArrayList<>();
    for (int rank = 0; rank < devices.size(); rank++) {
      CommunicatorConfig own = config.with("NCCL_HOSTID", "" + rank / ofHost);
      joining.add(Communicator.initRankAsync(devices.size(), id, rank, devices.get(rank), own));
    }
    return joining.stream().map(CompletableFuture::join).toList();
  }

  private static void exchange(Communicator comm) {
    Device device = comm.device();
    try (DeviceStream stream = device.createStream();
        DeviceMemory data = device.allocate(8L * COUNT);
        DeviceMemory experts = device.allocate(4L * SIZES.maxTokens() * SIZES.topK());
        ExpertExchange exchange = comm.createExpertExchange(SIZES)) {
      exchange.dispatch(data, experts, experts, 7, stream);
      exchange.combine(exchange.received(), data, stream);
      stream.synchronize();
    }
  }

  private static void create(Communicator comm) {
    try (ExpertExchange exchange = comm.createExpertExchange(SIZES)) {
      System.out.printf("rank %d: created, %b%n", comm.rank(), exchange.isCapturable());
    } catch (NcclException e) {
      System.out.printf(
          "rank %d: %s: %s%n", comm.rank(), e.getClass().getSimpleName(), e.getMessage());
    }
  }

  /** A GPU's kernels fault on data that are not aligned, after which its context is lost. */
  private static void refused(Communicator comm, Runnable call, String problem, String text) {
    try {
      call.run();
    } catch (InvalidArgumentException e) {
      boolean right = Pattern.compile(problem).matcher(e.problem()).find();
      System.out.printf("rank %d: refused: %s%n", comm.rank(), right ? text : e.problem());
    }
  }

  private static void launch(Communicator comm) {
    Device device = comm.device();
    Communicator quantised =
        comm.withOptions(CallOptions.defaults().withQuantisation(DataType.FLOAT8_E4M3, 32));
    try (DeviceStream stream = device.createStream();
        DeviceMemory data = device.allocate(8L * COUNT);
        DeviceMemory experts = device.allocate(4L * SIZES.maxTokens() * SIZES.topK());
        ExpertExchange exchange = comm.createExpertExchange(SIZES)) {
      refused(
          comm,
          () -> exchange.dispatch(data.slice(8, 7 * 512), experts, experts, 7, stream),
          "tokens begins at 0x\\w+8, which is no multiple of 16",
          "tokens begins at a multiple of 8 alone");
      Communicator shifted =
          comm.withOptions(
              CallOptions.defaults()
                  .withQuantisation(DataType.FLOAT8_E4M3, 32)
                  .withErrorFeedback(data.slice(2, 64)));
      refused(
          comm,
          () -> shifted.allReduce(data, data, 16, DataType.FLOAT32, RedOp.AVG, stream),
          "the residual begins at 0x\\w+2, which is no multiple of 4",
          "the residual begins at a multiple of 2 alone");
      quantised.allReduce(data, data, COUNT, DataType.FLOAT32, RedOp.AVG, stream);
      quantised.reduceScatter(data, data, COUNT / 2, DataType.BFLOAT16, RedOp.SUM, stream);
      exchange.dispatch(data, experts, experts, 7, stream);
      exchange.combine(exchange.received(), data, stream);
      exchange.beginDispatch(data, experts, experts, 7, stream).receive(stream);
      stream.synchronize();
    }
  }

  private static void sum(Communicator comm) {
    Communicator quantised =
        comm.withOptions(
            CallOptions.defaults()
                .withAlgorithm("Hierarchical")
                .withQuantisation(DataType.FLOAT8_E4M3, 32));
    try (DeviceStream stream = comm.device().createStream();
        DeviceMemory data = comm.device().allocate(8L * COUNT)) {
      quantised.allReduce(data, data, COUNT, DataType.FLOAT32, RedOp.AVG, stream);
      quantised.reduceScatter(data, data, COUNT / 4, DataType.BFLOAT16, RedOp.SUM, stream);
      stream.synchronize();
    }
  }

  /** Captures a quantised sum, and makes larger ones without a graph. */
  private static void grow(Communicator comm) {
    Communicator quantised =
        comm.withOptions(CallOptions.defaults().withQuantisation(DataType.FLOAT8_E4M3, 32));
    try (CudaStream stream = (CudaStream) comm.device().createStream();
        DeviceMemory data = comm.device().allocate(16L * COUNT)) {
      stream.beginCapture();
      quantised.allReduce(data, data, COUNT, DataType.FLOAT32, RedOp.SUM, stream);
      stream.endCapture().close();
      for (int times = 2; times <= 4; times *= 2) {
        quantised.allReduce(data, data, times * COUNT, DataType.FLOAT32, RedOp.SUM, stream);
      }
      stream.synchronize();
      System.out.printf(
          "rank %d: %d bytes%n", comm.rank(), quantised.memory().get("quantised sums"));
    }
  }

  /** Calls of exchanges in graphs that are dropped, and after them. */
  private static void drop(Communicator comm) {
    Device device = comm.device();
    try (CudaStream stream = (CudaStream) device.createStream();
        DeviceMemory data = device.allocate(8L * COUNT);
        DeviceMemory experts = device.allocate(4L * SIZES.maxTokens() * SIZES.topK())) {
      ExpertExchange first = comm.createExpertExchange(SIZES);
      stream.beginCapture();
      first.beginDispatch(data, experts, experts, 7, stream);
      stream.endCapture().close();
      first.close();
      ExpertExchange second = comm.createExpertExchange(SIZES);
      second.dispatch(data, experts, experts, 7, stream);
      stream.beginCapture();
      second.beginCombine(second.received(), data, stream);
      stream.endCapture().close();
      second.close();
      try (ExpertExchange third = comm.createExpertExchange(SIZES)) {
        third.dispatch(data, experts, experts, 3, stream);
        stream.beginCapture();
        third.dispatch(data, experts, experts, 7, stream);
        stream.endCapture().close();
        // Three tokens were the last that were dispatched, which a kernel knows.
        third.combine(third.received(), data.slice(0, 3 * 512), stream);
        stream.synchronize();
      }
      System.out.printf("rank %d: closed%n", comm.rank());
    }
  }
}
