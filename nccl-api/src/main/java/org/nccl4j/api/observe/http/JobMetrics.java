package org.nccl4j.api.observe.http;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.nccl4j.api.observe.JobReport;
import org.nccl4j.api.observe.JobReport.Behind;
import org.nccl4j.api.observe.JobReport.CommunicatorState;
import org.nccl4j.api.observe.flight.RankReport;
import org.nccl4j.api.observe.flight.RankReport.TakeOver;
import org.nccl4j.api.observe.flight.RankReport.Traffic;

/**
 * Writes the state of a job in Prometheus' text format 0.0.4. A counter is a communicator's own, so
 * it begins anew with another communicator of the same name.
 */
final class JobMetrics {
  /** The format's media type. */
  static final String TYPE = "text/plain; version=0.0.4; charset=utf-8";

  private static final double MILLIS = 1000;

  /** The samples of a family by labels; equal labels are one sample. */
  private static final class Family {
    final String type;
    final String help;
    final Map<String, Double> samples = new LinkedHashMap<>();

    Family(String type, String help) {
      this.type = type;
      this.help = help;
    }
  }

  private final Map<String, Family> families = new LinkedHashMap<>();

  private JobMetrics() {
    family("nccl4j_job_ranks", "gauge", "Ranks of the job.");
    family("nccl4j_job_silent_ranks", "gauge", "Ranks that gave no answer in time.");
    family("nccl4j_job_gone_ranks", "gauge", "Ranks that have left or have not come.");
    family("nccl4j_job_healthy", "gauge", "1 if no rank is silent, gone, behind or has failed.");
    family("nccl4j_operations_total", "counter", "Operations that ended.");
    family("nccl4j_behind_collectives", "gauge", "Collectives by which a rank is behind others.");
    family("nccl4j_waits_for_seconds", "gauge", "Time for which a rank waits for another.");
    family("nccl4j_failed", "gauge", "1 if the communicator has failed on the rank.");
    family("nccl4j_link_bytes_total", "counter", "Bytes sent to a rank over its connection.");
    family(
        "nccl4j_path_takeovers_total",
        "counter",
        "Paths of connections that broke and that others have replaced.");
    family("nccl4j_bytes_sent_again_total", "counter", "Bytes sent again after a path had broken.");
  }

  private void family(String name, String type, String help) {
    families.put(name, new Family(type, help));
  }

  /** The state of a job. */
  static String of(JobReport job) {
    JobMetrics metrics = new JobMetrics();
    metrics.put("nccl4j_job_ranks", "", job.nRanks());
    metrics.put("nccl4j_job_silent_ranks", "", job.silent().size());
    metrics.put("nccl4j_job_gone_ranks", "", job.gone().size());
    metrics.put("nccl4j_job_healthy", "", job.isHealthy() ? 1 : 0);
    job.communicators().forEach(metrics::take);
    return metrics.text();
  }

  private void take(CommunicatorState state) {
    for (RankReport rank : state.ranks()) {
      take(rank);
    }
    for (Behind each : state.behind()) {
      put("nccl4j_behind_collectives", labels(each.report()), each.collectives());
    }
  }

  private void take(RankReport rank) {
    String labels = labels(rank);
    put("nccl4j_operations_total", labels, rank.ended());
    put("nccl4j_failed", labels, rank.failed() ? 1 : 0);
    if (rank.waitsFor() >= 0 && rank.current() != null) {
      put(
          "nccl4j_waits_for_seconds",
          labels + "," + label("waits_for", String.valueOf(rank.waitsFor())),
          rank.stillMillis() / MILLIS);
    }
    for (Traffic link : rank.links().traffic()) {
      put(
          "nccl4j_link_bytes_total",
          labels + "," + peer(link.peer()) + "," + label("transport", link.transport()),
          link.bytes());
    }
    for (TakeOver each : rank.links().takeOvers()) {
      String to = labels + "," + peer(each.peer());
      put("nccl4j_path_takeovers_total", to, each.what().count());
      put("nccl4j_bytes_sent_again_total", to, each.what().bytesAgain());
    }
  }

  private static String labels(RankReport rank) {
    return String.join(
        ",",
        List.of(
            label("communicator", rank.name()),
            label("rank", String.valueOf(rank.rank())),
            label("host", rank.process().host()),
            label("pid", String.valueOf(rank.process().pid()))));
  }

  private static String peer(int rank) {
    return label("peer", rank < 0 ? "others" : String.valueOf(rank));
  }

  private static String label(String name, String value) {
    String escaped = value.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", "\\n");
    return name + "=\"" + escaped + "\"";
  }

  /** Of two samples with equal labels, counters are added; of others the larger is taken. */
  private void put(String family, String labels, double value) {
    Family all = families.get(family);
    all.samples.merge(labels, value, all.type.equals("counter") ? Double::sum : Math::max);
  }

  private String text() {
    StringBuilder text = new StringBuilder();
    families.forEach(
        (name, family) -> {
          text.append("# HELP ").append(name).append(' ').append(family.help).append('\n');
          text.append("# TYPE ").append(name).append(' ').append(family.type).append('\n');
          family.samples.forEach(
              (labels, value) -> {
                text.append(name);
                text.append(labels.isEmpty() ? "" : "{" + labels + "}").append(' ');
                text.append(value == Math.rint(value) ? String.valueOf(value.longValue()) : value);
                text.append('\n');
              });
        });
    return text.toString();
  }
}
