package org.nccl4j.api.registry;

import java.lang.System.Logger;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.Iterator;
import java.util.List;
import java.util.Optional;
import java.util.ServiceConfigurationError;
import java.util.function.Function;
import java.util.function.ToIntFunction;
import java.util.regex.Pattern;
import org.nccl4j.api.multicast.MulticastProvider;
import org.nccl4j.api.settings.PlanSettings;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.spi.NetProvider;
import org.nccl4j.api.spi.ProfilerProvider;
import org.nccl4j.api.spi.Setting;
import org.nccl4j.api.spi.TransportProvider;
import org.nccl4j.api.spi.TunerProvider;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;

/**
 * The transports and networks on the module path and class path, in the order in which they are
 * tried.
 */
public final class TransportRegistry {
  private static final Logger LOG = DebugLog.of("INIT");
  private static final String ADD =
      "put the %s's jar on the class path or module path (--class-path JAR of ./nccl)";

  private static final Pattern NAME = Pattern.compile("[A-Za-z0-9-]{1,32}");

  /** Remedy for a failing tuner or profiler. */
  public static final String WITHOUT_PLUGINS =
      "report it to its author; NCCL_TUNER_PLUGIN=none and NCCL_PROFILER_PLUGIN=none disable"
          + " plug-ins";

  private TransportRegistry() {}

  /**
   * The transports that may be used, best first.
   *
   * @param wanted names in order, separated by commas, as NCCL4J_TRANSPORTS says; empty for all by
   *     priority and name
   * @throws InvalidArgumentException if a wanted one does not exist
   */
  public static List<TransportProvider> providers(String wanted) {
    return new Kind<>(
            TransportProvider.class,
            "transport",
            Settings.NCCL4J_TRANSPORTS,
            TransportProvider::name,
            TransportProvider::priority)
        .choose(Providers.of(TransportProvider.class), wanted);
  }

  /**
   * The networks that may be used, best first.
   *
   * @param wanted names in order, separated by commas, as NCCL_NET says; empty for all by priority
   *     and name
   * @throws InvalidArgumentException if a wanted one does not exist
   */
  public static List<NetProvider> nets(String wanted) {
    return new Kind<>(
            NetProvider.class,
            "network",
            Settings.NCCL_NET,
            NetProvider::name,
            NetProvider::priority)
        .choose(Providers.of(NetProvider.class), wanted);
  }

  /**
   * The tuners that may be used, by name.
   *
   * @param wanted the name of one, as NCCL_TUNER_PLUGIN says; empty for all
   */
  public static List<TunerProvider> tuners(String wanted) {
    return chosen(
        load(
            TunerProvider.class,
            "tuner",
            WITHOUT_PLUGINS,
            TunerProvider::name,
            Providers.of(TunerProvider.class)),
        TunerProvider::name,
        wanted,
        PlanSettings.NCCL_TUNER_PLUGIN.name());
  }

  /**
   * The profilers that may be used, by name.
   *
   * @param wanted the name of one, as NCCL_PROFILER_PLUGIN says; empty for all
   */
  public static List<ProfilerProvider> profilers(String wanted) {
    return chosen(
        load(
            ProfilerProvider.class,
            "profiler",
            WITHOUT_PLUGINS,
            ProfilerProvider::name,
            Providers.of(ProfilerProvider.class)),
        ProfilerProvider::name,
        wanted,
        Settings.NCCL_PROFILER_PLUGIN.name());
  }

  private static <P> List<P> chosen(
      List<P> found, Function<P, String> name, String wanted, String setting) {
    List<P> all =
        found.stream()
            .filter(p -> wanted.isEmpty() || name.apply(p).equalsIgnoreCase(wanted))
            .sorted(Comparator.comparing(name))
            .toList();
    if (all.isEmpty() && !wanted.isEmpty()) {
      throw new InvalidArgumentException(
          ErrorId.NAME,
          "%s=%s is not among those found: %s"
              .formatted(setting, wanted, found.stream().map(name).toList()),
          "correct the name, or " + ADD.formatted("plug-in"));
    }
    return all;
  }

  /**
   * Returns the provider of multicast memory, if there is one on the path; of several the first by
   * name.
   */
  public static Optional<MulticastProvider> multicast() {
    List<MulticastProvider> all = new ArrayList<>();
    try {
      Providers.of(MulticastProvider.class).forEachRemaining(all::add);
    } catch (ServiceConfigurationError e) {
      LOG.log(Logger.Level.WARNING, "NVLS cannot be loaded and is left out: " + e, e);
    }
    return all.stream().min(Comparator.comparing(MulticastProvider::name));
  }

  /** All that can be loaded, guarded. */
  private static <P> List<P> load(
      Class<P> type, String what, String remedy, Function<P, String> name, Iterator<P> found) {
    List<P> all = new ArrayList<>();
    while (true) {
      try {
        if (!found.hasNext()) {
          return all;
        }
        P plugin = GuardedPlugin.of(type, what, remedy, name, found.next());
        checkName(what, plugin, name.apply(plugin));
        all.add(plugin);
      } catch (ServiceConfigurationError e) {
        LOG.log(Logger.Level.WARNING, "a " + what + " cannot be loaded and is left out: " + e, e);
      }
    }
  }

  private static void checkName(String what, Object plugin, String own) {
    if (!NAME.matcher(own).matches()) {
      throw new InvalidUsageException(
          ErrorId.PLUGIN,
          "%s %s calls itself '%s'".formatted(what, GuardedPlugin.className(plugin), own),
          "use at most 32 letters, digits and hyphens");
    }
  }

  /** A kind of provider. */
  private record Kind<P>(
      Class<P> type,
      String what,
      Setting<String> setting,
      Function<P, String> name,
      ToIntFunction<P> priority) {

    List<P> choose(Iterator<P> found, String wanted) {
      List<P> all = new ArrayList<>();
      String remedy =
          "report it to its author, or name the ones to use in %s".formatted(setting.name());
      load(type, what, remedy, name, found).forEach(provider -> add(all, provider));
      if (wanted.isBlank()) {
        all.sort(Comparator.comparingInt(priority).reversed().thenComparing(name));
        return all;
      }
      List<P> chosen = new ArrayList<>();
      if (wanted.replace(",", "").isBlank()) {
        throw new InvalidArgumentException(
            ErrorId.SETTING,
            "%s=%s has no name of a %s".formatted(setting.name(), wanted, what),
            "name one or more of %s, or unset it for all"
                .formatted(String.join(", ", all.stream().map(name).toList())));
      }
      for (String each : wanted.split(",")) {
        chosen.add(find(all, each.trim(), wanted));
      }
      return chosen;
    }

    private P find(List<P> all, String one, String wanted) {
      return all.stream()
          .filter(provider -> name.apply(provider).equalsIgnoreCase(one))
          .findFirst()
          .orElseThrow(
              () ->
                  new InvalidArgumentException(
                      ErrorId.NAME,
                      "%s=%s names '%s', which is not among the %ss found: %s"
                          .formatted(
                              setting.name(), wanted, one, what, all.stream().map(name).toList()),
                      "correct the name, or " + ADD.formatted(what)));
    }

    private void add(List<P> all, P provider) {
      String own = name.apply(provider);
      if (all.stream().anyMatch(other -> name.apply(other).equals(own))) {
        LOG.log(
            Logger.Level.WARNING,
            "two {0}s are called {1}; {2} is left out",
            what,
            own,
            GuardedPlugin.className(provider));
      } else {
        all.add(provider);
      }
    }
  }
}
