package org.nccl4j.topo.bench;

import java.util.Arrays;
import java.util.Locale;
import java.util.function.Supplier;
import org.nccl4j.topo.Collective;
import org.nccl4j.topo.TestMachines;
import org.nccl4j.topo.TopoSettings;
import org.nccl4j.topo.cluster.Cluster;
import org.nccl4j.topo.cluster.ClusterOptions;
import org.nccl4j.topo.simulate.Simulation;
import org.nccl4j.topo.tuning.CostModel;
import org.nccl4j.topo.xml.XmlElement;

/**
 * How long the steps take in a warm JVM: median, 99th percentile and slowest of many runs. Run by
 * hand; docs/benchmarks/topo.md has the command and the figures.
 */
public final class TopoBenchmark {
  private static final int WARM_UP = 30;
  private static final int RUNS = 50;
  private static Object sink;

  private TopoBenchmark() {}

  /** Prints the table. */
  public static void main(String[] args) {
    System.out.printf("%-44s %10s %10s %10s%n", "step", "median ms", "p99 ms", "max ms");
    for (String name :
        new String[] {"dgx-h100", "dgx-b200", "h100-two-planes", "dgx1-v100", "dgx2-v100"}) {
      XmlElement file = TestMachines.read(name);
      measure(name + ": paths", () -> Cluster.routes(file, ClusterOptions.DEFAULT));
      measure(name + ": all, 1 machine", () -> Cluster.of(file, 1, ClusterOptions.DEFAULT));
      measure(name + ": all, 2 machines", () -> Cluster.of(file, 2, ClusterOptions.DEFAULT));
    }
    XmlElement rack = TestMachines.read("gb200-nvl72");
    measure("gb200-nvl72: paths", () -> Cluster.routes(rack, ClusterOptions.DEFAULT), 2, 5);
    measure("gb200-nvl72: all, 1 rack", () -> Cluster.of(rack, 1, ClusterOptions.DEFAULT), 2, 5);
    measure("gb200-nvl72: all, 2 racks", () -> Cluster.of(rack, 2, ClusterOptions.DEFAULT), 2, 5);
    XmlElement h100 = TestMachines.read("dgx-h100");
    measure(
        "dgx-h100: simulate 100,000 GPUs",
        () ->
            Simulation.of(Cluster.of(h100, 12500, ClusterOptions.DEFAULT), TopoSettings.defaults()),
        2,
        5);
    select(Cluster.of(h100, 2, ClusterOptions.DEFAULT).costs());
    System.out.println(sink == null ? "" : "done");
  }

  private static void measure(String step, Supplier<Object> work) {
    measure(step, work, WARM_UP, RUNS);
  }

  private static void measure(String step, Supplier<Object> work, int warmUp, int runs) {
    for (int i = 0; i < warmUp; i++) {
      sink = work.get();
    }
    double[] millis = new double[runs];
    for (int i = 0; i < runs; i++) {
      long start = System.nanoTime();
      sink = work.get();
      millis[i] = (System.nanoTime() - start) / 1e6;
    }
    Arrays.sort(millis);
    System.out.printf(
        Locale.ROOT,
        "%-44s %10.2f %10.2f %10.2f%n",
        step,
        millis[runs / 2],
        millis[runs * 99 / 100],
        millis[runs - 1]);
  }

  private static void select(CostModel costs) {
    int times = 1_000_000;
    for (int round = 0; round < 3; round++) {
      long start = System.nanoTime();
      for (int i = 0; i < times; i++) {
        sink = costs.select(Collective.ALL_REDUCE, 1024L + i).orElse(null);
      }
      if (round == 2) {
        double nanos = (System.nanoTime() - start) / (double) times;
        System.out.printf(Locale.ROOT, "%-44s %10.0f ns%n", "choice of an algorithm", nanos);
      }
    }
  }
}
