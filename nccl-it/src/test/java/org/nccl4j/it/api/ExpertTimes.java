package org.nccl4j.it.api;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.function.Consumer;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Devices;
import org.nccl4j.api.ExpertConfig;
import org.nccl4j.api.ExpertExchange;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceEvent;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.cuda.CudaGraph;
import org.nccl4j.device.cuda.CudaStream;

/**
 * Times of dispatch and combine on all GPUs, and of an all-to-all of as many rows: {@code
 * ExpertTimes [TOKENS HIDDEN TOPK EXPERTS]}. Calls lie in a graph; the median of five launches
 * counts. Every token has topK different experts. Run by hand; {@link ExpertsGpuTest} checks.
 */
final class ExpertTimes {
  private static final int ROUNDS = 5;
  private static final int SMALL = 1024;

  private ExpertTimes() {}

  public static void main(String[] arguments) throws Exception {
    int[] sizes = Arrays.stream(arguments).mapToInt(Integer::parseInt).toArray();
    int hidden = sizes.length > 1 ? sizes[1] : 7168;
    int topK = sizes.length > 2 ? sizes[2] : 8;
    int experts = sizes.length > 3 ? sizes[3] : 256;
    try (Ranks ranks = new Ranks(Communicator.initAll(List.copyOf(Devices.cuda().list())))) {
      for (int tokens : sizes.length > 0 ? new int[] {sizes[0]} : new int[] {128, 4096}) {
        for (boolean fp8 : new boolean[] {true, false}) {
          ExpertConfig config =
              new ExpertConfig(tokens, hidden, topK, experts, DataType.BFLOAT16, fp8);
          ranks.run((comm, stream) -> times(comm, (CudaStream) stream, config));
        }
      }
    }
    System.exit(0);
  }

  private static void times(Communicator comm, CudaStream stream, ExpertConfig config) {
    Device device = comm.device();
    int tokens = config.maxTokens();
    long row = config.hidden() * (config.fp8() ? 1L : 2L);
    long rows = (long) tokens * config.topK();
    int calls = tokens <= SMALL ? 20 : 5;
    try (ExpertExchange exchange = comm.expertExchange(config);
        DeviceMemory from = device.allocate(2L * tokens * config.hidden());
        DeviceMemory experts = device.allocate(4 * rows);
        DeviceMemory weights = device.allocate(4 * rows);
        DeviceMemory outputs = device.allocate(2 * comm.nRanks() * rows * config.hidden());
        DeviceMemory result = device.allocate(2L * tokens * config.hidden());
        DeviceMemory send = device.memAlloc(rows * row);
        DeviceMemory recv = device.memAlloc(rows * row)) {
      experts.write(0, experts(config, new Random(comm.rank())));
      comm.registerWindow(send);
      comm.registerWindow(recv);
      double dispatch =
          time(stream, calls, s -> exchange.dispatch(from, experts, weights, tokens, s));
      double both =
          time(
              stream,
              calls,
              s -> {
                exchange.dispatch(from, experts, weights, tokens, s);
                exchange.combine(outputs, result, s);
              });
      double all =
          time(
              stream,
              calls,
              s -> comm.allToAll(send, recv, rows * row / comm.nRanks(), DataType.UINT8, s));
      if (comm.rank() == 0) {
        System.out.printf(
            "%d tokens of %d, top-%d of %d, %s: dispatch %.1f us, combine %.1f us, all-to-all of"
                + " %d bytes %.1f us%n",
            tokens,
            config.hidden(),
            config.topK(),
            config.experts(),
            config.fp8() ? "fp8" : "bf16",
            dispatch,
            both - dispatch,
            rows * row,
            all);
      }
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

  /** Microseconds of a call. */
  private static double time(CudaStream stream, int calls, Consumer<CudaStream> call) {
    stream.beginCapture();
    for (int i = 0; i < calls; i++) {
      call.accept(stream);
    }
    double[] times = new double[ROUNDS];
    try (CudaGraph graph = stream.endCapture();
        DeviceEvent begin = stream.device().createEvent();
        DeviceEvent end = stream.device().createEvent()) {
      for (int round = -1; round < ROUNDS; round++) {
        stream.record(begin);
        graph.launch(stream);
        stream.record(end);
        stream.synchronize();
        times[Math.max(0, round)] = end.microsecondsSince(begin) / calls;
      }
    }
    Arrays.sort(times);
    return times[ROUNDS / 2];
  }
}
