package org.nccl4j.api.init;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.nccl4j.api.observe.OperationHook;
import org.nccl4j.api.plan.CostEdit;
import org.nccl4j.api.registry.TransportRegistry;
import org.nccl4j.api.settings.InfoLog;
import org.nccl4j.api.settings.PlanSettings;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.spi.CostTable;
import org.nccl4j.api.spi.Profiler;
import org.nccl4j.api.spi.ProfilerProvider;
import org.nccl4j.api.spi.Tuner;
import org.nccl4j.api.spi.TunerContext;
import org.nccl4j.api.spi.TunerProvider;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;

/** A communicator's tuner and profilers, as its planner and its queue see them. */
final class Plugins {
  private static final String NONE = "none";
  private static final String BLAME =
      "tell its author; NCCL_TUNER_PLUGIN=none and NCCL_PROFILER_PLUGIN=none do without";
  private static final System.Logger LOG = DebugLog.of("PROFILE");

  private Plugins() {}

  /** The edit of the tuner that is to be used. */
  static CostEdit tuner(Settings settings, TunerContext context, InfoLog info) {
    String wanted = settings.get(PlanSettings.NCCL_TUNER_PLUGIN);
    if (wanted.equalsIgnoreCase(NONE)) {
      return CostEdit.NONE;
    }
    List<TunerProvider> found = TransportRegistry.tuners(wanted);
    if (found.isEmpty()) {
      return CostEdit.NONE;
    }
    String name = "tuner " + found.get(0).name();
    Tuner tuner = held(name, () -> found.get(0).open(context));
    info.tell("TUNING", () -> "asks " + name);
    return (collective, bytes, type, ways) -> {
      Table table = new Table(new ArrayList<>(ways));
      return held(
          name,
          () -> {
            tuner.tune(collective, bytes, type, table);
            return table.edited;
          });
    };
  }

  /** What a plug-in answers; what it throws is said to be its. */
  private static <T> T held(String who, Supplier<T> call) {
    try {
      T answer = call.get();
      if (answer != null) {
        return answer;
      }
    } catch (NcclException e) {
      throw e;
    } catch (RuntimeException e) {
      throw new InvalidUsageException(
          ErrorId.PLUGIN, "the %s fails: %s".formatted(who, e), BLAME, e);
    }
    throw new InvalidUsageException(ErrorId.PLUGIN, "the %s answers null".formatted(who), BLAME);
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
  static Optional<OperationHook> profilers(
      Settings settings, String name, int rank, int nRanks, InfoLog info) {
    String wanted = settings.get(Settings.NCCL_PROFILER_PLUGIN);
    if (wanted.equalsIgnoreCase(NONE)) {
      return Optional.empty();
    }
    List<Told> told = new ArrayList<>();
    for (ProfilerProvider provider : TransportRegistry.profilers(wanted)) {
      String who = "profiler " + provider.name();
      held(who, () -> provider.open(name, rank, nRanks))
          .map(profiler -> new Told(who, profiler, held(who, profiler::activation)))
          .ifPresent(told::add);
    }
    told.forEach(each -> info.tell("PROFILE", () -> "is told to " + each.name));
    return told.isEmpty() ? Optional.empty() : Optional.of(new Hook(List.copyOf(told)));
  }

  /**
   * A profiler.
   *
   * @param mask what it wants to be told
   * @param broken set once it has thrown: it is told no more, and operations go on
   */
  private record Told(String name, Profiler profiler, int mask, AtomicBoolean broken) {
    Told(String name, Profiler profiler, int mask) {
      this(name, profiler, mask, new AtomicBoolean());
    }

    boolean wants(int event) {
      return (mask & event) != 0;
    }

    void tell(Consumer<Profiler> what) {
      if (broken.get()) {
        return;
      }
      try {
        what.accept(profiler);
      } catch (RuntimeException e) {
        if (!broken.getAndSet(true)) {
          LOG.log(System.Logger.Level.WARNING, "the " + name + " fails and is told no more", e);
        }
      }
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
      ofLaunches.forEach(told -> told.tell(profiler -> profiler.launched(operation)));
      if (!ofEnds.isEmpty() && !stream.isCapturing()) {
        stream.launchHostFunction(
            () -> ofEnds.forEach(told -> told.tell(profiler -> profiler.ended(operation))));
      }
    }

    @Override
    public void close() {
      all.forEach(told -> told.tell(Profiler::close));
    }
  }
}
