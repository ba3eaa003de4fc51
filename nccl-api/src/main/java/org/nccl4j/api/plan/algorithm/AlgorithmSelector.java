package org.nccl4j.api.plan.algorithm;

import java.lang.System.Logger.Level;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Predicate;
import java.util.stream.Stream;
import org.nccl4j.api.plan.cost.AlgorithmChoice;
import org.nccl4j.api.plan.cost.CostModel;
import org.nccl4j.api.plan.cost.NvlsCostModel;
import org.nccl4j.api.settings.AlgorithmFilter;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.RedOp;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/** Chooses the cheapest algorithm and protocol that the settings and the buffers allow. */
public final class AlgorithmSelector {
  private static final System.Logger LOG = DebugLog.of("TUNING");

  /** Operations for which settings leave no way, as this process has logged. */
  private static final Set<Excluded> TOLD = ConcurrentHashMap.newKeySet();

  /** An operation, and settings that leave no way for it. */
  private record Excluded(Operation operation, String settings) {}

  private final CostModel costs;
  private final AlgorithmFilter filter;
  private final TunerHook edit;

  public AlgorithmSelector(CostModel costs, AlgorithmFilter filter) {
    this(costs, filter, TunerHook.NONE);
  }

  public AlgorithmSelector(CostModel costs, AlgorithmFilter filter, TunerHook edit) {
    this.edit = edit;
    this.costs = costs;
    this.filter = filter;
  }

  /**
   * The cheapest for an operation, over connections or between windows. An algorithm between
   * windows that the user asks for goes before all over connections.
   *
   * @param bytes of the whole data, as in {@link CostModel#microseconds}
   */
  public AlgorithmChoice choose(
      Operation operation, long bytes, DataType type, RedOp op, BufferReach reach) {
    AlgorithmChoice direct = betweenWindows(operation, bytes, type, op, reach);
    if (direct != null && filter.demands(operation, direct.algorithm())) {
      return direct;
    }
    AlgorithmChoice other = choose(operation, bytes, type, op);
    return direct != null && costs.comparesWindows() && direct.microseconds() < other.microseconds()
        ? direct
        : other;
  }

  /** The cheapest between windows, or null. */
  private AlgorithmChoice betweenWindows(
      Operation operation, long bytes, DataType type, RedOp op, BufferReach reach) {
    AlgorithmChoice best = null;
    for (Algorithm algorithm : costs.betweenWindows(operation)) {
      if (isAllowed(algorithm, operation, type, op, reach)) {
        AlgorithmChoice choice = betweenWindows(operation, algorithm, bytes);
        double least = best == null ? Double.POSITIVE_INFINITY : best.microseconds();
        best = choice.microseconds() < least ? choice : best;
      }
    }
    return best;
  }

  private boolean isAllowed(
      Algorithm algorithm, Operation operation, DataType type, RedOp op, BufferReach reach) {
    return costs.has(algorithm, operation, type, op)
        && reach.allows(algorithm, operation)
        && filter.allows(operation, algorithm);
  }

  /**
   * The choices of a collective over connections, the cheapest first. Algorithms of NVLS are left
   * out but for the first, since NVLS's memory is made for a choice alone.
   */
  public List<AlgorithmChoice> choices(Operation operation, long bytes, DataType type, RedOp op) {
    List<AlgorithmChoice> all = choices(operation, bytes, type, op, algorithm -> true);
    return firstOf(all.get(0), all);
  }

  /**
   * The choices of a collective on buffers: first the one of {@link #choose(Operation, long,
   * DataType, RedOp, BufferReach)}, then the others, the cheapest first, as {@link
   * #choices(Operation, long, DataType, RedOp)}. Where the choice goes over connections, ranks may
   * pass different places in their windows, and so algorithms between windows are left out.
   */
  public List<AlgorithmChoice> choices(
      Operation operation, long bytes, DataType type, RedOp op, BufferReach reach) {
    AlgorithmChoice first = choose(operation, bytes, type, op, reach);
    List<AlgorithmChoice> all =
        new ArrayList<>(choices(operation, bytes, type, op, algorithm -> true));
    if (first.algorithm().isBetweenWindows()) {
      for (Algorithm algorithm : costs.betweenWindows(operation)) {
        if (isAllowed(algorithm, operation, type, op, reach)) {
          all.add(betweenWindows(operation, algorithm, bytes));
        }
      }
    }
    return firstOf(first, all);
  }

  private static List<AlgorithmChoice> firstOf(AlgorithmChoice first, List<AlgorithmChoice> all) {
    return Stream.concat(
            Stream.of(first),
            all.stream()
                .filter(
                    choice ->
                        !choice.equals(first)
                            && !NvlsCostModel.isNvls(choice.algorithm())
                            && !choice.algorithm().isMulticast()
                            && choice.microseconds() < CostModel.ONLY_WHERE_ASKED)
                .sorted(Comparator.comparingDouble(AlgorithmChoice::microseconds)))
        .toList();
  }

  private AlgorithmChoice betweenWindows(Operation operation, Algorithm algorithm, long bytes) {
    Protocol protocol = algorithm.protocol();
    return new AlgorithmChoice(
        algorithm, protocol, costs.microseconds(operation, algorithm, protocol, bytes));
  }

  /** The cheapest over connections. */
  public AlgorithmChoice choose(Operation operation, long bytes, DataType type, RedOp op) {
    if (!operation.isCollective()) {
      return chooseExchange(operation, bytes, type);
    }
    return choose(operation, bytes, type, op, algorithm -> true);
  }

  /**
   * Logs a warning if the settings do not allow the choice for an operation that will run, once for
   * each operation and value of the settings.
   */
  public void tellIfExcluded(Operation operation, AlgorithmChoice choice) {
    // Where there is one algorithm alone, a list is meant for other operations; why there is no
    // NVLS is told where it is made.
    if (!isAllowed(operation, choice)
        && costs.overConnections(operation).size() > 1
        && !filter.demandsNvls()
        && TOLD.add(new Excluded(operation, filter.toString()))) {
      LOG.log(
          Level.WARNING,
          "nothing that {1} allows does {0} here; it uses {2} {3}. Remedy: name an algorithm and a"
              + " protocol that --explain of nccl perf lists, or a list for this operation alone"
              + " (NCCL_ALGO=tree;{0}:ring)",
          operation.key(),
          filter,
          choice.algorithm().label(),
          choice.protocol().label());
    }
  }

  /**
   * The cheapest for an operation that consists of sends and receives, whose protocols depend on
   * their sizes.
   */
  public AlgorithmChoice chooseExchange(Operation operation, long bytes, DataType type) {
    return exchanges(operation, bytes, type).get(0);
  }

  /** All ways of such an operation that the settings allow, the cheapest first. */
  public List<AlgorithmChoice> exchanges(Operation operation, long bytes, DataType type) {
    List<Algorithm> able = new ArrayList<>(List.of(Algorithm.PAIRWISE));
    able.addAll(costs.overConnections(operation));
    List<AlgorithmChoice> choices =
        filter.algorithms(operation, able).stream()
            .map(
                algorithm ->
                    new AlgorithmChoice(
                        algorithm,
                        Protocol.SIMPLE,
                        costs.microseconds(operation, algorithm, Protocol.SIMPLE, bytes)))
            .toList();
    return (choices.size() == 1 ? choices : edited(operation, bytes, type, choices))
        .stream().sorted(Comparator.comparingDouble(AlgorithmChoice::microseconds)).toList();
  }

  private boolean isAllowed(Operation operation, AlgorithmChoice choice) {
    return filter.allows(operation, choice.algorithm(), choice.protocol());
  }

  /** Among some algorithms over connections, one of which the device has for every collective. */
  public AlgorithmChoice choose(
      Operation operation, long bytes, DataType type, RedOp op, Predicate<Algorithm> among) {
    return choices(operation, bytes, type, op, among).get(0);
  }

  /** All over connections that is allowed, the cheapest first. */
  private List<AlgorithmChoice> choices(
      Operation operation, long bytes, DataType type, RedOp op, Predicate<Algorithm> among) {
    List<AlgorithmChoice> choices = new ArrayList<>();
    List<Algorithm> able =
        costs.overConnections(operation).stream()
            .filter(among.and(algorithm -> costs.has(algorithm, operation, type, op)))
            .toList();
    for (Algorithm algorithm : filter.algorithms(operation, able)) {
      List<Protocol> has =
          costs.protocols().stream().filter(protocol -> costs.has(algorithm, protocol)).toList();
      for (Protocol protocol : filter.protocols(operation, has)) {
        double time = costs.microseconds(operation, algorithm, protocol, bytes);
        choices.add(new AlgorithmChoice(algorithm, protocol, time));
      }
    }
    List<AlgorithmChoice> edited = edited(operation, bytes, type, choices);
    edited.sort(Comparator.comparingDouble(AlgorithmChoice::microseconds));
    return edited;
  }

  /** With the times that a tuner gives; without those that it forbids, unless it forbids all. */
  private List<AlgorithmChoice> edited(
      Operation operation, long bytes, DataType type, List<AlgorithmChoice> choices) {
    if (edit == TunerHook.NONE) {
      return choices;
    }
    List<AlgorithmChoice> edited =
        new ArrayList<>(edit.edit(operation, bytes, type, List.copyOf(choices)));
    edited.removeIf(choice -> choice.microseconds() == Double.POSITIVE_INFINITY);
    return edited.isEmpty() ? choices : edited;
  }

  /**
   * Every way with its predicted time and where that comes from, and the choice with its reason.
   */
  public String explain(Operation operation, long bytes, DataType type) {
    StringBuilder text = new StringBuilder();
    text.append("%s of %d bytes; costs: %s%n".formatted(operation.label(), bytes, costs.source()));
    List<AlgorithmChoice> allowed = choices(operation, bytes, type, RedOp.SUM, algorithm -> true);
    for (Algorithm algorithm : costs.overConnections(operation)) {
      for (Protocol protocol : costs.protocols()) {
        if (costs.has(algorithm, protocol)) {
          text.append(
              line(
                  operation,
                  new AlgorithmChoice(
                      algorithm,
                      protocol,
                      costs.microseconds(operation, algorithm, protocol, bytes)),
                  allowed));
        }
      }
    }
    String lacks = costs.lacks(operation);
    if (!lacks.isEmpty()) {
      text.append("  not offered: %s%n".formatted(lacks));
    }
    AlgorithmChoice best = allowed.get(0);
    text.append(
        "  chosen: %s %s, the cheapest%s%n"
            .formatted(
                best.algorithm().label(),
                best.protocol().label(),
                isAllowed(operation, best)
                    ? " that is allowed"
                    : ": NCCL_ALGO and NCCL_PROTO leave none for this operation"));
    return text.toString();
  }

  private String line(Operation operation, AlgorithmChoice way, List<AlgorithmChoice> allowed) {
    Algorithm algorithm = way.algorithm();
    Protocol protocol = way.protocol();
    String source = costs.source(operation, algorithm, protocol);
    Optional<AlgorithmChoice> kept =
        allowed.stream()
            .filter(c -> c.algorithm() == algorithm && c.protocol() == protocol)
            .findFirst();
    String note = "";
    if (way.microseconds() >= CostModel.ONLY_WHERE_ASKED) {
      note = "; used only if NCCL_ALGO names it";
    }
    if (kept.isEmpty()) {
      note = "; not allowed by NCCL_ALGO, NCCL_PROTO or the tuner";
    } else if (kept.get().microseconds() != way.microseconds()) {
      note = String.format(Locale.ROOT, "; the tuner sets %.2f us", kept.get().microseconds());
    }
    return String.format(
        Locale.ROOT,
        "  %-8s %-6s %12.2f us  %s%s%n",
        algorithm.label(),
        protocol.label(),
        CostModel.predicted(way.microseconds()),
        source,
        note);
  }

  /** Every algorithm between windows with its predicted time, as lines of a table. */
  public String explainWindows(Operation operation, long bytes) {
    StringBuilder text = new StringBuilder();
    text.append("  with buffers in windows; costs: %s%n".formatted(costs.windowSource()));
    for (Algorithm algorithm : costs.betweenWindows(operation)) {
      AlgorithmChoice way = betweenWindows(operation, algorithm, bytes);
      String name = "  %-16s %-7s ".formatted(algorithm.label(), way.protocol().label());
      if (way.microseconds() < CostModel.ONLY_WHERE_ASKED) {
        text.append(String.format(Locale.ROOT, "%s%11.2f us%n", name, way.microseconds()));
      } else if (way.microseconds() < Double.POSITIVE_INFINITY) {
        text.append("%snot measured: used only if NCCL_ALGO names it%n".formatted(name));
      }
    }
    return text.toString();
  }
}
