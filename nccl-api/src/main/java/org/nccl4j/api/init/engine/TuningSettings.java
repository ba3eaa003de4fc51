package org.nccl4j.api.init.engine;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.nccl4j.api.plan.algorithm.CtaLimits;
import org.nccl4j.api.settings.AlgorithmFilter;
import org.nccl4j.api.settings.GpuSettings;
import org.nccl4j.api.settings.PlanSettings;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.spi.Setting;
import org.nccl4j.device.Device;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.support.Patience;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Protocol;
import org.nccl4j.topo.TopoSettings;

/**
 * A rank's settings that affect the choice of algorithms. Ranks that choose differently wait for
 * each other until a deadline, so all must have the same. Comparing calls is an additional
 * operation, so all ranks must do it or none, and so with groups launched together. Connections
 * over networks work with different time limits too, so these are only warned of.
 *
 * @param values by name, with defaults where they are not set
 */
public record TuningSettings(Map<String, String> values) {
  /** Limits by which both ends of a connection over a network decide that it is to be replaced. */
  private static final List<Setting<Duration>> LIMITS_OF_NETWORKS =
      List.of(Settings.NCCL4J_NET_SILENCE_TIMEOUT, Settings.NCCL4J_NET_FAILOVER_TIMEOUT);

  /** Entry of the tuner's name, which depends on what each rank finds, too. */
  private static final String TUNER =
      PlanSettings.NCCL_TUNER_PLUGIN.name() + " or the tuner on the class path";

  /** Ranks that a warning names. */
  private static final int NAMED = 8;

  public static TuningSettings of(Settings settings, Device.Kind kind) {
    Map<String, String> values = new LinkedHashMap<>();
    AlgorithmFilter filter = filter(settings);
    values.put(Settings.NCCL_ALGO.name(), filter.algorithmText());
    values.put(Settings.NCCL_PROTO.name(), filter.protocolText());
    values.put(TUNER, TunerAdapter.name(settings));
    values.put(
        PlanSettings.NCCL4J_DETERMINISM.name(), settings.get(PlanSettings.NCCL4J_DETERMINISM));
    values.put(
        PlanSettings.NCCL4J_TRIALS.name(),
        settings.get(PlanSettings.NCCL4J_TRIALS).isEmpty() ? "no folder" : "a folder");
    values.put(
        Settings.NCCL_CHECK_MODE.name(),
        Engine.compares(settings) ? "DEBUG_GLOBAL" : "other than DEBUG_GLOBAL");
    if (kind == Device.Kind.CUDA) {
      values.put(
          PlanSettings.NCCL4J_PROBE.name(), settings.get(PlanSettings.NCCL4J_PROBE).toString());
      CtaLimits ctas = Engine.ctas(settings, kind);
      values.put(
          PlanSettings.NCCL_CTA_POLICY.name(),
          settings.get(PlanSettings.NCCL_CTA_POLICY).toString());
      values.put("NCCL_MIN_CTAS or NCCL_MIN_NCHANNELS", Integer.toString(ctas.fewest()));
      values.put("NCCL_MAX_CTAS or NCCL_MAX_NCHANNELS", Integer.toString(ctas.most()));
      values.put(
          GpuSettings.NCCL4J_GROUP_FUSE.name(),
          settings.get(GpuSettings.NCCL4J_GROUP_FUSE) ? "1" : "0");
      values.put(TopoSettings.NCCL_MAX_P2P_NCHANNELS.name(), Integer.toString(ctas.ofSends()));
      values.put(
          PlanSettings.NCCL_P2P_LL_THRESHOLD.name(),
          settings.get(PlanSettings.NCCL_P2P_LL_THRESHOLD).toString());
    }
    for (Setting<Duration> limit : LIMITS_OF_NETWORKS) {
      values.put(limit.name(), Patience.text(settings.get(limit)));
    }
    return new TuningSettings(values);
  }

  /** The same without what selects algorithms and the probe: the conditions of measured times. */
  public String conditions() {
    Map<String, String> others = new LinkedHashMap<>(values);
    others
        .keySet()
        .removeAll(
            List.of(
                Settings.NCCL_ALGO.name(),
                Settings.NCCL_PROTO.name(),
                TUNER,
                PlanSettings.NCCL4J_DETERMINISM.name(),
                PlanSettings.NCCL4J_TRIALS.name(),
                PlanSettings.NCCL4J_PROBE.name(),
                GpuSettings.NCCL4J_GROUP_FUSE.name()));
    others.keySet().removeAll(limits());
    return new TuningSettings(others).text();
  }

  /** Returns the filter of NCCL_ALGO and NCCL_PROTO. */
  static AlgorithmFilter filter(Settings settings) {
    return AlgorithmFilter.of(settings);
  }

  /** One line. */
  public String text() {
    StringBuilder text = new StringBuilder();
    values.forEach((name, value) -> text.append(name).append('=').append(value).append('|'));
    return text.toString();
  }

  public static TuningSettings fromText(String text) {
    Map<String, String> values = new LinkedHashMap<>();
    for (String pair : text.split("\\|")) {
      int equals = pair.indexOf('=');
      values.put(pair.substring(0, equals), pair.substring(equals + 1));
    }
    return new TuningSettings(values);
  }

  /**
   * Checks that another rank has the same.
   *
   * @param rank whose these are
   * @throws InvalidUsageException naming the setting and both values
   */
  public void check(int rank, TuningSettings others, int other) {
    Map<String, String> alike = new LinkedHashMap<>(values);
    alike.keySet().removeAll(limits());
    alike.forEach(
        (name, value) -> {
          String theirs = others.values.get(name);
          if (theirs != null && !theirs.equals(value)) {
            throw new InvalidUsageException(
                ErrorId.SETTINGS_DIFFER,
                "ranks %d and %d have different values of %s, %s and %s, and would wait for each other"
                    .formatted(rank, other, name, shown(value), shown(theirs)),
                "give all ranks the same value, or none");
          }
        });
  }

  /** A value for people; a name of an algorithm or a protocol as NCCL writes it. */
  private static String shown(String value) {
    if (value.isEmpty()) {
      return "unset";
    }
    Map<String, String> labels = new HashMap<>();
    Stream.concat(Algorithm.accepted().stream(), Stream.of(Protocol.values()).map(Protocol::label))
        .forEach(label -> labels.put(label.toLowerCase(Locale.ROOT), label));
    String text =
        Pattern.compile("[a-z0-9]+")
            .matcher(value)
            .replaceAll(word -> labels.getOrDefault(word.group(), word.group()));
    return "'" + text + "'";
  }

  private static Set<String> limits() {
    return LIMITS_OF_NETWORKS.stream().map(Setting::name).collect(Collectors.toSet());
  }

  /** Returns a warning for each limit of networks that not all ranks have the same. */
  static List<String> warnings(List<TuningSettings> byRank) {
    List<String> warnings = new ArrayList<>();
    for (Setting<Duration> limit : LIMITS_OF_NETWORKS) {
      Map<String, List<Integer>> ranks = new LinkedHashMap<>();
      for (int rank = 0; rank < byRank.size(); rank++) {
        String value = byRank.get(rank).values.getOrDefault(limit.name(), "unknown");
        ranks.computeIfAbsent(value, none -> new ArrayList<>()).add(rank);
      }
      if (ranks.size() > 1) {
        warnings.add(
            ("%s is %s: connections between these ranks may be replaced although they work, or not"
                    + " be replaced if they break; give all ranks the same value, or none")
                .formatted(
                    limit.name(),
                    ranks.entrySet().stream()
                        .map(each -> each.getKey() + " on " + numbers(each.getValue()))
                        .collect(Collectors.joining(", "))));
      }
    }
    return warnings;
  }

  private static String numbers(List<Integer> ranks) {
    String first =
        ranks.stream().limit(NAMED).map(String::valueOf).collect(Collectors.joining(" "));
    int more = ranks.size() - NAMED;
    return (ranks.size() == 1 ? "rank " : "ranks ")
        + first
        + (more > 0 ? " and %d more".formatted(more) : "");
  }
}
