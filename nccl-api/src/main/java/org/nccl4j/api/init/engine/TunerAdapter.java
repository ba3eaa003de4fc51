package org.nccl4j.api.init.engine;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.function.Supplier;
import org.nccl4j.api.plan.algorithm.TunerHook;
import org.nccl4j.api.plan.cost.AlgorithmChoice;
import org.nccl4j.api.registry.TransportRegistry;
import org.nccl4j.api.settings.InfoLog;
import org.nccl4j.api.settings.PlanSettings;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.spi.CostTable;
import org.nccl4j.api.spi.Tuner;
import org.nccl4j.api.spi.TunerContext;
import org.nccl4j.api.spi.TunerProvider;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Protocol;

/** A communicator's tuner, as its planner sees it, and how plug-ins are called. */
final class TunerAdapter {
  /** Value of the setting that finds no plug-in. */
  static final String NONE = "none";

  private TunerAdapter() {}

  /** The tuner that the settings select; empty where there is none. */
  private static Optional<TunerProvider> selected(Settings settings) {
    String wanted = settings.get(PlanSettings.NCCL_TUNER_PLUGIN);
    return wanted.equalsIgnoreCase(NONE)
        ? Optional.empty()
        : TransportRegistry.tuners(wanted).stream().findFirst();
  }

  /** The name of the tuner that the settings select, or {@link #NONE}. */
  static String name(Settings settings) {
    return selected(settings).map(TunerProvider::name).orElse(NONE);
  }

  /** The hook of the tuner that the settings select. */
  static TunerHook tuner(Settings settings, TunerContext context, InfoLog info) {
    Optional<TunerProvider> provider = selected(settings);
    if (provider.isEmpty()) {
      return TunerHook.NONE;
    }
    String name = "tuner " + provider.get().name();
    Tuner tuner = held(name, () -> provider.get().open(context));
    info.tell("TUNING", () -> "uses " + name);
    return (operation, bytes, type, ways) -> {
      Table table = new Table(new ArrayList<>(ways));
      return held(
          name,
          () -> {
            tuner.tune(operation, bytes, type, table);
            return table.edited;
          });
    };
  }

  /** Returns a plug-in's answer; an error that it throws names the plug-in. */
  static <T> T held(String who, Supplier<T> call) {
    try {
      T answer = call.get();
      if (answer != null) {
        return answer;
      }
    } catch (NcclException e) {
      throw e;
    } catch (RuntimeException | LinkageError e) {
      throw new InvalidUsageException(
          ErrorId.PLUGIN,
          "the %s fails: %s".formatted(who, e),
          TransportRegistry.WITHOUT_PLUGINS,
          e);
    }
    throw new InvalidUsageException(
        ErrorId.PLUGIN, "the %s answers null".formatted(who), TransportRegistry.WITHOUT_PLUGINS);
  }

  /** Times under edit. */
  private record Table(List<AlgorithmChoice> edited) implements CostTable {
    @Override
    public List<CostTable.Way> ways() {
      return edited.stream()
          .map(
              choice ->
                  new CostTable.Way(choice.algorithm(), choice.protocol(), choice.microseconds()))
          .toList();
    }

    @Override
    public void set(Algorithm algorithm, Protocol protocol, double microseconds) {
      for (int c = 0; c < edited.size(); c++) {
        AlgorithmChoice choice = edited.get(c);
        if (choice.algorithm() == algorithm && choice.protocol() == protocol && microseconds >= 0) {
          edited.set(c, choice.taking(microseconds));
          return;
        }
      }
      throw new InvalidArgumentException(
          ErrorId.NAME,
          "a tuner sets %s %s to %s us; the table has %s"
              .formatted(algorithm, protocol, microseconds, ways()),
          "set a time of 0 or more for an algorithm and protocol of the table");
    }
  }
}
