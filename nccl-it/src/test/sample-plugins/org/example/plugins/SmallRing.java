package org.example.plugins;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.nccl4j.api.spi.CostTable;
import org.nccl4j.api.spi.Profiler;
import org.nccl4j.api.spi.ProfilerProvider;
import org.nccl4j.api.spi.Tuner;
import org.nccl4j.api.spi.TunerContext;
import org.nccl4j.api.spi.TunerProvider;
import org.nccl4j.device.DataType;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;

/** Sample plug-ins. */
public final class SmallRing {
  private SmallRing() {}

  /** A tuner that forbids everything but rings for small all-reduces. */
  public static final class Tuning implements TunerProvider {
    /** For the service loader. */
    public Tuning() {}

    @Override
    public String name() {
      return "small-ring";
    }

    @Override
    public Tuner open(TunerContext context) {
      return SmallRing::tune;
    }
  }

  private static void tune(Operation operation, long bytes, DataType type, CostTable table) {
    if (operation == Operation.ALL_REDUCE && bytes <= 4096) {
      for (CostTable.Way way : table.ways()) {
        if (way.algorithm() != Algorithm.RING) {
          table.set(way.algorithm(), way.protocol(), Double.POSITIVE_INFINITY);
        }
      }
    }
  }

  /** A profiler that keeps what it is told of rank 0. */
  public static final class Profiling implements ProfilerProvider {
    /** The calls, in order. */
    public static final List<String> TOLD = new ArrayList<>();

    /** For the service loader. */
    public Profiling() {}

    @Override
    public String name() {
      return "keeper";
    }

    @Override
    public Optional<Profiler> open(String communicator, int rank, int nRanks) {
      return rank == 0 && communicator.equals("profiled")
          ? Optional.of(new Keeper())
          : Optional.empty();
    }
  }

  private static final class Keeper implements Profiler {
    @Override
    public int activation() {
      return LAUNCHES | ENDS | PROXY_STEPS;
    }

    @Override
    public void launched(Operation operation) {
      tell("launched " + operation.name() + " " + operation.bytes());
    }

    @Override
    public void ended(Operation operation) {
      tell("ended " + operation.name() + " " + operation.number());
    }

    @Override
    public void stepped(ProxyStep step) {
      if (step.state() == StepState.DONE) {
        tell((step.sends() ? "sent " : "received ") + step.bytes() + ", step " + step.number());
      }
    }

    @Override
    public void close() {
      tell("closed");
    }

    private static void tell(String what) {
      synchronized (Profiling.TOLD) {
        Profiling.TOLD.add(what);
      }
    }
  }
}
