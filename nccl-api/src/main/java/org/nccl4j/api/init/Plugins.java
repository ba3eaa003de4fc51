package org.nccl4j.api.init;

import java.util.ArrayList;
import java.util.List;
import org.nccl4j.api.group.OperationHook;
import org.nccl4j.api.plan.CostEdit;
import org.nccl4j.api.registry.TransportRegistry;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.spi.CostTable;
import org.nccl4j.api.spi.Profiler;
import org.nccl4j.api.spi.ProfilerProvider;
import org.nccl4j.api.spi.Tuner;
import org.nccl4j.api.spi.TunerContext;
import org.nccl4j.api.spi.TunerProvider;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.InvalidArgumentException;

/** A communicator's tuner and profilers, as its planner and its queue see them. */
final class Plugins {
  private static final String NONE = "none";

  private Plugins() {}

  /** The edit of the tuner that is to be used. */
  static CostEdit tuner(Settings settings, TunerContext context) {
    String wanted = settings.get(Settings.NCCL_TUNER_PLUGIN);
    if (wanted.equalsIgnoreCase(NONE)) {
      return CostEdit.NONE;
    }
    List<TunerProvider> found = TransportRegistry.tuners(wanted);
    if (found.isEmpty()) {
      return CostEdit.NONE;
    }
    Tuner tuner = found.get(0).open(context);
    return (collective, bytes, type, ways) -> {
      Table table = new Table(new ArrayList<>(ways));
      tuner.tune(collective, bytes, type, table);
      return table.edited;
    };
  }

  /** Times under edit. */
  private record Table(List<CostEdit.Way> edited) implements CostTable {
    @Override
    public List<CostTable.Way> ways() {
      return edited.stream()
          .map(way -> new CostTable.Way(way.algorithm(), way.protocol(), way.microseconds()))
          .toList();
    }

    @Override
    public void set(String algorithm, String protocol, double microseconds) {
      for (CostEdit.Way way : edited) {
        if (way.algorithm().equalsIgnoreCase(algorithm)
            && way.protocol().equalsIgnoreCase(protocol)
            && microseconds >= 0) {
          edited.set(
              way.index(),
              new CostEdit.Way(way.index(), way.algorithm(), way.protocol(), microseconds));
          return;
        }
      }
      throw new InvalidArgumentException(
          "a tuner sets %s %s to %s us; there are %s"
              .formatted(algorithm, protocol, microseconds, ways()),
          "set a time of 0 or more for a way that is in the table");
    }
  }

  /** The hook of the profilers that want the communicator; null where there is none. */
  static OperationHook profilers(Settings settings, String name, int rank, int nRanks) {
    String wanted = settings.get(Settings.NCCL_PROFILER_PLUGIN);
    if (wanted.equalsIgnoreCase(NONE)) {
      return null;
    }
    List<Profiler> profilers = new ArrayList<>();
    for (ProfilerProvider provider : TransportRegistry.profilers(wanted)) {
      provider.open(name, rank, nRanks).ifPresent(profilers::add);
    }
    return profilers.isEmpty() ? null : new Hook(List.copyOf(profilers));
  }

  /** Tells profilers what they want to know. Called by one thread at a time. */
  private static final class Hook implements OperationHook {
    private final List<Profiler> profilers;
    private final int mask;
    private long number;

    Hook(List<Profiler> profilers) {
      this.profilers = profilers;
      this.mask = profilers.stream().mapToInt(Profiler::activation).reduce(0, (a, b) -> a | b);
    }

    @Override
    public void launched(String what, long count, DataType type, int root, DeviceStream stream) {
      number++;
      if (mask == 0) {
        return;
      }
      Profiler.Operation operation =
          new Profiler.Operation(number, what, count, count * type.bytes(), root);
      tell(Profiler.LAUNCHES, operation);
      if ((mask & Profiler.ENDS) != 0) {
        stream.launchHostFunction(() -> tell(Profiler.ENDS, operation));
      }
    }

    private void tell(int event, Profiler.Operation operation) {
      for (Profiler profiler : profilers) {
        if ((profiler.activation() & event) != 0) {
          if (event == Profiler.LAUNCHES) {
            profiler.launched(operation);
          } else {
            profiler.ended(operation);
          }
        }
      }
    }

    @Override
    public void close() {
      profilers.forEach(Profiler::close);
    }
  }
}
