package org.nccl4j.it.top;

import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.ToDoubleFunction;
import org.nccl4j.it.top.Frame.CommunicatorRates;
import org.nccl4j.it.top.Frame.RankRates;
import org.nccl4j.it.top.Frame.Wait;

/**
 * Counters and gauges of the frames in Prometheus' text format 0.0.4. Counters begin at the first
 * frame, and a rank's series ends with its process. For one thread.
 */
final class PrometheusText {
  /** The format's media type. */
  static final String TYPE = "text/plain; version=0.0.4; charset=utf-8";

  private static final double GIGABYTE = 1e9;

  private Map<String, Rank> ranks = new LinkedHashMap<>();
  private Map<String, Double> waits = new LinkedHashMap<>();
  private Map<String, Double> sizes = new LinkedHashMap<>();

  /** The sums of a rank, and its last state. */
  private static final class Rank {
    double operations;
    double bytes;
    double busBytes;
    double waitSeconds;
    int failed;
    int stopped;

    Rank(Rank before) {
      if (before != null) {
        operations = before.operations;
        bytes = before.bytes;
        busBytes = before.busBytes;
        waitSeconds = before.waitSeconds;
      }
    }

    void add(RankRates rates, double seconds) {
      operations += Math.round(rates.operations() * seconds);
      bytes += Math.round(rates.gigabytes() * GIGABYTE * seconds);
      busBytes += Math.round(rates.busGigabytes() * GIGABYTE * seconds);
      waitSeconds += rates.waiting() * seconds;
      failed |= rates.state().equals("failed") ? 1 : 0;
      stopped |= rates.state().equals("stopped") ? 1 : 0;
    }
  }

  /** Adds a frame. Communicators of one name in one process have their sum. */
  void add(Frame frame) {
    Map<String, Rank> before = ranks;
    ranks = new LinkedHashMap<>();
    waits = new LinkedHashMap<>();
    sizes = new LinkedHashMap<>();
    for (CommunicatorRates communicator : frame.communicators()) {
      String name = label("communicator", communicator.name());
      sizes.merge(name, (double) communicator.nRanks(), Math::max);
      // Waits name ranks alone, which one process has or, after a restart, several.
      Map<Integer, String> places = new HashMap<>();
      for (RankRates rank : communicator.ranks()) {
        String labels =
            "%s,%s,%s,%s"
                .formatted(
                    name,
                    label("rank", String.valueOf(rank.rank())),
                    label("host", rank.process().host()),
                    label("pid", String.valueOf(rank.process().pid())));
        places.put(rank.rank(), labels);
        ranks.computeIfAbsent(labels, key -> new Rank(before.get(key))).add(rank, frame.seconds());
      }
      for (Wait wait : communicator.waits()) {
        String place = places.getOrDefault(wait.rank(), name);
        String awaited = label("waits_for", String.valueOf(wait.waitsFor()));
        waits.merge(place + "," + awaited, wait.share(), Math::max);
      }
    }
  }

  /** All families, each with its samples. */
  @Override
  public String toString() {
    StringBuilder text = new StringBuilder();
    counter(text, "nccl4j_operations_total", "Operations that ended.", rank -> rank.operations);
    counter(
        text,
        "nccl4j_operation_bytes_total",
        "Bytes of the data of operations that ended, as nccl-tests count them.",
        rank -> rank.bytes);
    counter(
        text,
        "nccl4j_bus_bytes_total",
        "The same bytes times nccl-tests' bus factor.",
        rank -> rank.busBytes);
    counter(
        text,
        "nccl4j_wait_seconds_total",
        "Time in which the rank's kernel waited for another rank, by samples.",
        rank -> rank.waitSeconds);
    gauge(text, "nccl4j_failed", "1 if the communicator has failed on the rank.", r -> r.failed);
    gauge(text, "nccl4j_stopped", "1 if the rank's process is stopped.", rank -> rank.stopped);
    family(text, "nccl4j_wait_ratio", "gauge", "Share of samples in which a rank waited.");
    waits.forEach((labels, share) -> sample(text, "nccl4j_wait_ratio", labels, share));
    family(text, "nccl4j_communicator_ranks", "gauge", "Ranks of a communicator.");
    sizes.forEach((labels, size) -> sample(text, "nccl4j_communicator_ranks", labels, size));
    return text.toString();
  }

  private void counter(StringBuilder text, String name, String help, ToDoubleFunction<Rank> value) {
    family(text, name, "counter", help);
    samples(text, name, value);
  }

  private void gauge(StringBuilder text, String name, String help, ToDoubleFunction<Rank> value) {
    family(text, name, "gauge", help);
    samples(text, name, value);
  }

  private void samples(StringBuilder text, String name, ToDoubleFunction<Rank> value) {
    ranks.forEach((labels, rank) -> sample(text, name, labels, value.applyAsDouble(rank)));
  }

  private static void family(StringBuilder text, String name, String type, String help) {
    text.append("# HELP %s %s\n# TYPE %s %s\n".formatted(name, help, name, type));
  }

  private static void sample(StringBuilder text, String name, String labels, double value) {
    // Whole numbers without an exponent up to 2^53.
    String number =
        value == Math.rint(value) && Math.abs(value) < 0x1p53
            ? String.valueOf((long) value)
            : String.valueOf(value);
    text.append(name).append('{').append(labels).append("} ").append(number).append('\n');
  }

  private static String label(String name, String value) {
    String escaped = value.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", "\\n");
    return name + "=\"" + escaped + "\"";
  }
}
