package org.nccl4j.it.api;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.function.ToDoubleFunction;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.ExpertConfig;
import org.nccl4j.api.ExpertExchange;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.cuda.CudaStream;
import org.nccl4j.it.perf.nccl.Libnccl;
import org.nccl4j.it.perf.workload.Buffers;
import org.nccl4j.it.perf.workload.Cell;
import org.nccl4j.it.perf.workload.Workload;

/**
 * Times of dispatch and combine on all GPUs, and of all-to-alls of as many rows: {@code ExpertTimes
 * [hosts] [LIBNCCL] [TOKENS HIDDEN TOPK EXPERTS]}. With a libnccl.so.2 also those of libnccl, on
 * plain memory and on symmetric windows. Calls lie in a graph; the median of five launches counts.
 * With "hosts" every GPU counts as a host of its own, and the host's clock measures calls in a row.
 * Every token has topK different experts. Run by hand; {@link ExpertsGpuTest} checks.
 */
final class ExpertTimes {
  private static final int ROUNDS = 5;

  /** Rounds before those that count, for the host's compiler. */
  private static final int WARM_UP = 20;

  private static final int SMALL = 1024;

  private ExpertTimes() {}

  public static void main(String[] all) throws Exception {
    boolean hosts = all.length > 0 && all[0].equals("hosts");
    String[] arguments = Arrays.copyOfRange(all, hosts ? 1 : 0, all.length);
    boolean compares = arguments.length > 0 && !arguments[0].matches("\\d+");
    Libnccl libnccl = compares ? Libnccl.load(arguments[0]) : null;
    int[] sizes =
        Arrays.stream(arguments).skip(compares ? 1 : 0).mapToInt(Integer::parseInt).toArray();
    int hidden = sizes.length > 1 ? sizes[1] : 7168;
    int topK = sizes.length > 2 ? sizes[2] : 8;
    int experts = sizes.length > 3 ? sizes[3] : 256;
    List<CudaDevice> devices = Devices.cuda().list();
    try (Ranks ranks =
        hosts
            ? Ranks.onHosts(
                "abcdefgh".substring(0, devices.size()), devices, CommunicatorConfig.defaults())
            : new Ranks(Communicator.initAll(List.copyOf(devices)))) {
      for (int tokens : sizes.length > 0 ? new int[] {sizes[0]} : new int[] {128, 4096}) {
        for (boolean fp8 : new boolean[] {true, false}) {
          ExpertConfig config =
              new ExpertConfig(tokens, hidden, topK, experts, DataType.BFLOAT16, fp8);
          ranks.run((comm, stream) -> times(comm, (CudaStream) stream, config, hosts));
          if (hosts) {
            ExpertConfig sums =
                new ExpertConfig(tokens, hidden, topK, experts, DataType.BFLOAT16, fp8, true);
            ranks.run((comm, stream) -> times(comm, (CudaStream) stream, sums, hosts));
          }
          if (compares) {
            String id = libnccl.uniqueId();
            ranks.run(
                (comm, stream) -> {
                  ((CudaDevice) comm.device()).makeCurrent();
                  long theirs = libnccl.join(comm.nRanks(), id, comm.rank());
                  new Theirs(libnccl, theirs, comm, (CudaStream) stream, calls(config))
                      .print(bytes(config));
                });
          }
        }
      }
    }
    System.exit(0);
  }

  /** Bytes of all rows that a rank sends, with their scales. */
  private static long bytes(ExpertConfig config) {
    long row = config.fp8() ? config.hidden() + config.hidden() / 128 * 4L : 2L * config.hidden();
    return row * config.maxTokens() * config.topK();
  }

  private static int calls(ExpertConfig config) {
    return config.maxTokens() <= SMALL ? 20 : 5;
  }

  private static void times(
      Communicator comm, CudaStream stream, ExpertConfig config, boolean hosts) {
    CudaDevice device = (CudaDevice) comm.device();
    int tokens = config.maxTokens();
    long rows = (long) tokens * config.topK();
    int calls = hosts && tokens > SMALL ? 1 : calls(config);
    try (ExpertExchange exchange = comm.createExpertExchange(config);
        DeviceMemory from = device.allocate(2L * tokens * config.hidden());
        DeviceMemory experts = device.allocate(4 * rows);
        DeviceMemory weights = device.allocate(4 * rows);
        DeviceMemory outputs = device.allocate(2 * comm.nRanks() * rows * config.hidden());
        DeviceMemory result = device.allocate(2L * tokens * config.hidden());
        DeviceMemory send = device.memAlloc(bytes(config));
        DeviceMemory recv = device.memAlloc(bytes(config))) {
      experts.write(0, experts(config, new Random(comm.rank())));
      comm.registerWindow(send);
      comm.registerWindow(recv);
      StreamTimes times = new StreamTimes(stream, ROUNDS);
      ToDoubleFunction<Runnable> micros =
          hosts
              ? call -> times.inARow(calls > 1 ? WARM_UP : 1, calls, call)
              : call -> times.inAGraph(calls, call);
      double dispatch =
          micros.applyAsDouble(() -> exchange.dispatch(from, experts, weights, tokens, stream));
      double parts =
          micros.applyAsDouble(
              () -> exchange.beginDispatch(from, experts, weights, tokens, stream).receive(stream));
      double both =
          micros.applyAsDouble(
              () -> {
                exchange.dispatch(from, experts, weights, tokens, stream);
                exchange.combine(outputs, result, stream);
              });
      double all =
          micros.applyAsDouble(
              () ->
                  comm.allToAll(send, recv, bytes(config) / comm.nRanks(), DataType.UINT8, stream));
      if (comm.rank() == 0) {
        System.out.printf(
            "%d tokens of %d, top-%d of %d, %s: dispatch %.1f us, in two parts %.1f us,"
                + " combine %.1f us, all-to-all of"
                + " %d bytes %.1f us%n",
            tokens,
            config.hidden(),
            config.topK(),
            config.experts(),
            (config.fp8() ? "fp8" : "bf16") + (config.sumsByHost() ? ", hosts add" : ""),
            dispatch,
            parts,
            both - dispatch,
            bytes(config),
            all);
      }
    }
  }

  /** libnccl's all-to-all of as many bytes, on one rank. */
  private record Theirs(
      Libnccl libnccl, long communicator, Communicator comm, CudaStream stream, int calls) {
    void print(long bytes) {
      CudaDevice device = (CudaDevice) comm.device();
      double plain;
      try (DeviceMemory send = device.allocate(bytes);
          DeviceMemory recv = device.allocate(bytes)) {
        plain = time(send, recv);
      }
      long send = libnccl.allocate(bytes);
      long recv = libnccl.allocate(bytes);
      long sends = libnccl.register(communicator, send, bytes);
      long receives = libnccl.register(communicator, recv, bytes);
      double windows = time(device.wrap(send, bytes), device.wrap(recv, bytes));
      if (comm.rank() == 0) {
        System.out.printf(
            "libnccl %s, all-to-all of %d bytes: plain memory %.1f us, windows %.1f us%n",
            libnccl.version(), bytes, plain, windows);
      }
      libnccl.deregister(communicator, sends);
      libnccl.deregister(communicator, receives);
      libnccl.free(send);
      libnccl.free(recv);
      libnccl.destroy(communicator);
    }

    private double time(DeviceMemory send, DeviceMemory recv) {
      Cell cell = new Cell(Workload.ALL_TO_ALL, DataType.UINT8, RedOp.SUM, 0, send.size(), false);
      Runnable call =
          libnccl.operation(
              cell,
              new Buffers(send, recv, DataType.UINT8),
              new Libnccl.Place(communicator, comm.rank(), comm.nRanks(), stream.handle()));
      for (int time = 0; time < ROUNDS; time++) {
        call.run(); // connects the ranks
      }
      stream.synchronize();
      return new StreamTimes(stream, ROUNDS).inAGraph(calls, call);
    }
  }

  private static ByteBuffer experts(ExpertConfig config, Random random) {
    ByteBuffer numbers =
        ByteBuffer.allocate(4 * config.maxTokens() * config.topK()).order(ByteOrder.nativeOrder());
    for (int token = 0; token < config.maxTokens(); token++) {
      random.ints(0, config.experts()).distinct().limit(config.topK()).forEach(numbers::putInt);
    }
    return numbers.flip();
  }
}
