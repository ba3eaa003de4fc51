package org.nccl4j.api.init;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.nccl4j.api.observe.OperationHook;
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
import org.nccl4j.device.ErrorId;
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
          ErrorId.NAME,
          "a tuner sets %s %s to %s us; there are %s"
              .formatted(algorithm, protocol, microseconds, ways()),
          "set a time of 0 or more for a way that is in the table");
    }
  }

  /** The hook of the profilers that want the communicator and something of it. */
  static Optional<OperationHook> profilers(Settings settings, String name, int rank, int nRanks) {
    String wanted = settings.get(Settings.NCCL_PROFILER_PLUGIN);
    if (wanted.equalsIgnoreCase(NONE)) {
      return Optional.empty();
    }
    List<Told> told = new ArrayList<>();
    for (ProfilerProvider provider : TransportRegistry.profilers(wanted)) {
      provider
          .open(name, rank, nRanks)
          .ifPresent(profiler -> told.add(new Told(profiler, profiler.activation())));
    }
    return told.isEmpty() ? Optional.empty() : Optional.of(new Hook(List.copyOf(told)));
  }

  /**
   * A profiler.
   *
   * @param mask what it wants to be told
   */
  private record Told(Profiler profiler, int mask) {
    boolean wants(int event) {
      return (mask & event) != 0;
    }
  }

  /** Tells profilers what they want to know. Called by one thread at a time. */
  private static final class Hook implements OperationHook {
    private final List<Told> all;
    private final List<Told> ofLaunches;
    private final List<Told> ofEnds;
    private long number;

    Hook(List<Told> all) {
      this.all = all;
      this.ofLaunches = all.stream().filter(told -> told.wants(Profiler.LAUNCHES)).toList();
      this.ofEnds = all.stream().filter(told -> told.wants(Profiler.ENDS)).toList();
    }

    @Override
    public void launched(String what, long count, DataType type, int root, DeviceStream stream) {
      number++;
      if (ofLaunches.isEmpty() && ofEnds.isEmpty()) {
        return;
      }
      Profiler.Operation operation =
          new Profiler.Operation(number, what, count, count * type.bytes(), root);
      ofLaunches.forEach(told -> told.profiler.launched(operation));
      if (!ofEnds.isEmpty() && !stream.isCapturing()) {
        stream.launchHostFunction(() -> ofEnds.forEach(told -> told.profiler.ended(operation)));
      }
    }

    @Override
    public void close() {
      all.forEach(told -> told.profiler.close());
    }
  }
}
