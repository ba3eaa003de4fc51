package org.nccl4j.topo.bench;

import java.util.concurrent.TimeUnit;
import org.nccl4j.operation.Operation;
import org.nccl4j.topo.TestMachines;
import org.nccl4j.topo.cluster.Cluster;
import org.nccl4j.topo.cluster.ClusterOptions;
import org.nccl4j.topo.path.Routes;
import org.nccl4j.topo.simulate.Simulation;
import org.nccl4j.topo.tuning.Selection;
import org.nccl4j.topo.xml.XmlElement;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.Warmup;

/**
 * The time from a parsed file to paths, and to all patterns, connections and costs;
 * docs/benchmarks/topo.md has the command and the figures.
 */
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.MILLISECONDS)
@Fork(value = 1, jvmArgs = "-Xss4m")
@Warmup(iterations = 3, time = 1)
@Measurement(iterations = 5, time = 1)
public class TopoBenchmark {

  /** A single machine, alone or as one of two. */
  @State(Scope.Benchmark)
  public static class Single {
    @Param({"dgx-h100", "dgx-b200", "h100-two-planes", "dgx1-v100", "dgx2-v100"})
    String machine;

    @Param({"1", "2"})
    int machines;

    private XmlElement file;

    /** Reads the file. */
    @Setup
    public void read() {
      file = TestMachines.read(machine);
    }
  }

  /** Larger ones. */
  @State(Scope.Benchmark)
  public static class Large {
    private final XmlElement rack = TestMachines.read("gb200-nvl72");
    private final XmlElement h100 = TestMachines.read("dgx-h100");
    private final Cluster two = Cluster.of(h100, 2, ClusterOptions.DEFAULT);
    private long bytes;
  }

  /** The graph of a machine and all its paths. */
  @Benchmark
  public Routes paths(Single single) {
    return Cluster.routes(single.file, ClusterOptions.DEFAULT);
  }

  /** Paths, all patterns, connections and costs. */
  @Benchmark
  public Cluster everything(Single single) {
    return Cluster.of(single.file, single.machines, ClusterOptions.DEFAULT);
  }

  /** The same for 72 GPUs of one NVLink domain. */
  @Benchmark
  public Cluster everythingOfARack(Large large) {
    return Cluster.of(large.rack, 1, ClusterOptions.DEFAULT);
  }

  /** 100,000 GPUs, every ring and tree walked. */
  @Benchmark
  public Simulation simulation(Large large) {
    Cluster cluster = Cluster.of(large.h100, 12500, ClusterOptions.DEFAULT);
    return Simulation.of(cluster);
  }

  /** One choice of an algorithm. */
  @Benchmark
  @OutputTimeUnit(TimeUnit.NANOSECONDS)
  public Selection choice(Large large) {
    return large.two.costs().select(Operation.ALL_REDUCE, 1024 + large.bytes++).orElse(null);
  }
}
