package org.nccl4j.api.plan.cost;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Function;
import java.util.stream.Stream;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/**
 * Costs that were measured for a model of GPU and a number of ranks ({@link MeasuredTable}), or by
 * a user. Between the measured sizes they are interpolated; beyond the largest they continue at its
 * bandwidth.
 */
final class MeasuredCosts {
  private record Way(Operation operation, Algorithm algorithm, Protocol protocol) {}

  /** Costs by number of ranks and model. */
  private static final String TWICE_PREDICTED = "not measured, twice the predicted time: ";

  private static final Map<String, Optional<MeasuredCosts>> KNOWN = new ConcurrentHashMap<>();

  private final String measured; // where, as a sentence
  private final boolean probed; // within the limits of blocks that count now
  private final Map<Way, TreeMap<Long, Double>> curves = new HashMap<>();
  private final Map<Way, TreeMap<Long, Integer>> fewest = new HashMap<>();

  private MeasuredCosts(String measured, boolean probed, Stream<String[]> lines) {
    this.measured = measured;
    this.probed = probed;
    lines.forEach(
        words -> {
          curves.put(way(words), CostPoints.read(words, 4));
          // The fewest channels within three per cent, where a table has them.
          fewest.put(way(words), CostPoints.read(words, 4, 2));
        });
  }

  /** Returns the costs measured for a model and a number of ranks, if there are any; read once. */
  static Optional<MeasuredCosts> find(String model, int nRanks) {
    return KNOWN.computeIfAbsent(
        nRanks + " " + model,
        missing ->
            MeasuredTable.find(model, "costs", nRanks)
                .map(
                    table ->
                        new MeasuredCosts(
                            table.source(nRanks), /* probed= */ false, table.lines().stream())));
  }

  /**
   * The costs of some ranks in a table of the user's or a probe's, if it has some.
   *
   * @param lines those that count
   * @param ranks as {@link RankPlacement#inTables} has them
   */
  static Optional<MeasuredCosts> tuned(TunedTable table, List<String> lines, String ranks) {
    MeasuredCosts tuned =
        new MeasuredCosts(
            "measured, " + table.file(),
            table.probed(),
            lines.stream().map(line -> line.split(" ")).filter(words -> words[0].equals(ranks)));
    return tuned.curves.isEmpty() ? Optional.empty() : Optional.of(tuned);
  }

  private static Way way(String[] words) {
    return new Way(
        labelled(Operation.collectives(), Operation::label, words[1]),
        Algorithm.ofMulticast(words[2], words[3])
            .orElseGet(() -> labelled(Algorithm.overConnections(), Algorithm::label, words[2])),
        labelled(List.of(Protocol.values()), Protocol::label, words[3]));
  }

  private static <T> T labelled(List<T> values, Function<T, String> label, String name) {
    return values.stream().filter(v -> label.apply(v).equals(name)).findFirst().orElseThrow();
  }

  /** Returns the measured microseconds of an operation; empty if they were not measured. */
  OptionalDouble measured(Operation operation, Algorithm algorithm, Protocol protocol, long bytes) {
    TreeMap<Long, Double> points = curves.get(new Way(operation, algorithm, protocol));
    return points == null ? OptionalDouble.empty() : OptionalDouble.of(at(points, bytes));
  }

  /** Where they were measured, as a sentence. */
  String source() {
    return measured;
  }

  /** These figures where there are some, and a model for all else. */
  CostModel over(CostModel model) {
    return new Overlay(model, /* allChannels= */ true);
  }

  /** The same where they were measured with the model's own channels and protocols. */
  CostModel before(CostModel model) {
    return new Overlay(model, /* allChannels= */ false);
  }

  /** Straight between measured sizes; beyond the largest at its bandwidth. */
  static double at(TreeMap<Long, Double> points, long bytes) {
    Map.Entry<Long, Double> below = points.floorEntry(bytes);
    Map.Entry<Long, Double> above = points.ceilingEntry(bytes);
    if (below == null) {
      return above.getValue();
    }
    if (above == null) {
      return below.getValue() * bytes / below.getKey();
    }
    double span = above.getKey() - below.getKey();
    double part = span == 0 ? 0 : (bytes - below.getKey()) / span;
    return below.getValue() + part * (above.getValue() - below.getValue());
  }

  private final class Overlay implements CostOverlay {
    private final CostModel base;
    private final boolean allChannels;

    Overlay(CostModel base, boolean allChannels) {
      this.base = base;
      this.allChannels = allChannels;
    }

    @Override
    public CostModel base() {
      return base;
    }

    @Override
    public boolean has(Algorithm algorithm, Protocol protocol) {
      return base.has(algorithm, protocol)
          || curves.keySet().stream()
              .anyMatch(way -> way.algorithm == algorithm && way.protocol == protocol);
    }

    @Override
    public int fewestChannels(Operation operation, AlgorithmChoice choice, long bytes) {
      TreeMap<Long, Integer> measured =
          fewest.get(new Way(operation, choice.algorithm(), choice.protocol()));
      Map.Entry<Long, Integer> below = measured == null ? null : measured.floorEntry(bytes);
      return below == null ? base.fewestChannels(operation, choice, bytes) : below.getValue();
    }

    @Override
    public double microseconds(
        Operation operation, Algorithm algorithm, Protocol protocol, long bytes) {
      TreeMap<Long, Double> points = curves.get(new Way(operation, algorithm, protocol));
      if (points != null) {
        return at(points, bytes);
      }
      return besideMeasured(base.microseconds(operation, algorithm, protocol, bytes));
    }

    /** An estimate must not win over a measurement. */
    private static double besideMeasured(double estimate) {
      return estimate < ONLY_WHERE_ASKED ? 2 * estimate : estimate;
    }

    @Override
    public double messages(int nRanks, int others, Protocol protocol, long bytes) {
      return hasRings(protocol)
          ? others * ringStep(nRanks, protocol, bytes)
          : besideMeasured(base.messages(nRanks, others, protocol, bytes));
    }

    @Override
    public String messageSource(Protocol protocol) {
      return hasRings(protocol)
          ? ringSource(protocol)
          : TWICE_PREDICTED + base.messageSource(protocol);
    }

    private boolean hasRings(Protocol protocol) {
      return curves.containsKey(new Way(Operation.ALL_GATHER, Algorithm.RING, protocol));
    }

    /** The channels that were measured. */
    @Override
    public int channels(Operation operation, AlgorithmChoice choice, long bytes) {
      return allChannels ? ConnectionLayout.CHANNELS : base.channels(operation, choice, bytes);
    }

    @Override
    public boolean isOfFewBlocks(Operation operation, Algorithm algorithm, Protocol protocol) {
      return curves.containsKey(new Way(operation, algorithm, protocol))
          ? probed
          : base.isOfFewBlocks(operation, algorithm, protocol);
    }

    @Override
    public String source() {
      return measured;
    }

    @Override
    public String source(Operation operation, Algorithm algorithm, Protocol protocol) {
      return curves.containsKey(new Way(operation, algorithm, protocol))
          ? measured
          : TWICE_PREDICTED + base.source(operation, algorithm, protocol);
    }
  }
}
