package org.nccl4j.it.nvls;

import io.micrometer.core.instrument.FunctionCounter;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.CommunicatorMetrics;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.api.spi.ProfilerProvider;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.cuda.CudaGraph;
import org.nccl4j.device.cuda.CudaStream;
import org.nccl4j.device.support.Patience;
import org.nccl4j.it.sample.CompiledPlugins;

/**
 * A program that launches sums on its GPUs by two communicators of each, with metrics and a
 * profiler, and closes them at once. Argument: an empty folder.
 */
final class ToldGpuRanks {
  static final int CALLS = 40;

  private static final String NAME = "org.example.ends.Ends";
  private static final String SOURCE =
      """
      package org.example.ends;

      import java.util.Optional;
      import java.util.Queue;
      import java.util.concurrent.ConcurrentLinkedQueue;
      import org.nccl4j.api.spi.*;

      public final class Ends implements ProfilerProvider {
        public static final Queue<String> TOLD = new ConcurrentLinkedQueue<>();

        @Override
        public String name() {
          return "ends";
        }

        @Override
        public Optional<Profiler> open(String communicator, int rank, int nRanks) {
          String who = communicator + rank + " ";
          return Optional.of(
              new Profiler() {
                @Override
                public int activation() {
                  return LAUNCHES | ENDS;
                }

                @Override
                public void launched(Operation operation) {
                  TOLD.add(who + "launches " + operation.number());
                }

                @Override
                public void ended(Operation operation, long nanos) {
                  long late = System.nanoTime() - nanos;
                  boolean isTime = late > -60_000_000_000L && late < 60_000_000_000L;
                  TOLD.add(who + (isTime ? "ends " : "ended at once ") + operation.number());
                  if (!Thread.currentThread().getName().equals("nccl4j-times")) {
                    TOLD.add("on " + Thread.currentThread().getName());
                  }
                }

                @Override
                public void close() {
                  TOLD.add(who + "closes");
                }
              });
        }
      }
      """;

  private ToldGpuRanks() {}

  /** Argument: an empty folder. */
  public static void main(String[] arguments) throws Exception {
    try (CompiledPlugins plugins =
        CompiledPlugins.of(Path.of(arguments[0]), SOURCE, Map.of(ProfilerProvider.class, NAME))) {
      @SuppressWarnings("unchecked") // as SOURCE says
      Queue<String> told = (Queue<String>) plugins.load(NAME).getField("TOLD").get(null);
      List<List<Communicator>> all = List.of(create("a"), create("b"));
      SimpleMeterRegistry registry = new SimpleMeterRegistry();
      all.forEach(ranks -> ranks.forEach(rank -> new CommunicatorMetrics(rank).bindTo(registry)));
      all.forEach(ToldGpuRanks::launch);
      System.out.println("threads: " + threads());
      all.forEach(ranks -> ranks.forEach(Communicator::close));
      List<String> lines = new ArrayList<>(told);
      for (String communicator : List.of("a0 ", "a1 ", "b0 ", "b1 ")) {
        System.out.println(
            communicator
                + "told: "
                + lines.stream()
                    .filter(line -> line.startsWith(communicator))
                    .map(line -> line.substring(communicator.length()))
                    .filter(line -> !line.startsWith("launches"))
                    .toList());
      }
      lines.stream().filter(line -> line.startsWith("on ")).forEach(System.out::println);
      System.out.println(
          "launched: "
              + registry.find("nccl4j.operations").functionCounters().stream()
                  .map(FunctionCounter::count)
                  .toList());
      System.out.println(
          "ended: "
              + registry.find("nccl4j.operation.time").functionTimers().stream()
                  .map(timer -> timer.count())
                  .toList());
      if (!Patience.until(() -> threads() == 0, Duration.ofMinutes(1))) {
        throw new IllegalStateException("threads of times go on");
      }
    }
  }

  private static long threads() {
    return Thread.getAllStackTraces().keySet().stream()
        .filter(thread -> thread.getName().equals("nccl4j-times"))
        .count();
  }

  private static List<Communicator> create(String name) {
    return Communicator.initAll(
        List.copyOf(Devices.cuda().list()),
        CommunicatorConfig.defaults().withName(name).with("NCCL_PROFILER_PLUGIN", "ends"));
  }

  /** The last call is captured into a graph, so its end is not told. */
  private static void launch(List<Communicator> ranks) {
    List<DeviceMemory> data = ranks.stream().map(rank -> rank.device().allocate(4096)).toList();
    List<DeviceStream> streams = ranks.stream().map(rank -> rank.device().createStream()).toList();
    for (int call = 1; call < CALLS; call++) {
      sum(ranks, data, streams);
    }
    List<CudaStream> captured = streams.stream().map(CudaStream.class::cast).toList();
    captured.forEach(CudaStream::beginCapture);
    sum(ranks, data, streams);
    List<CudaGraph> graphs = captured.stream().map(CudaStream::endCapture).toList();
    for (int rank = 0; rank < graphs.size(); rank++) {
      graphs.get(rank).launch(captured.get(rank));
    }
    streams.forEach(DeviceStream::synchronize);
    graphs.forEach(CudaGraph::close);
    streams.forEach(DeviceStream::close);
    data.forEach(DeviceMemory::close);
  }

  private static void sum(
      List<Communicator> ranks, List<DeviceMemory> data, List<DeviceStream> streams) {
    Group.run(
        () -> {
          for (int rank = 0; rank < ranks.size(); rank++) {
            DeviceMemory own = data.get(rank);
            ranks
                .get(rank)
                .allReduce(own, own, 1024, DataType.FLOAT32, RedOp.SUM, streams.get(rank));
          }
        });
  }
}
