package org.nccl4j.api.observe.http;

import static org.nccl4j.api.observe.http.PrometheusWriter.label;

import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.nccl4j.api.observe.JobReport;
import org.nccl4j.api.observe.JobReport.Behind;
import org.nccl4j.api.observe.JobReport.CommunicatorState;
import org.nccl4j.api.observe.LinkSpeeds;
import org.nccl4j.api.observe.flight.RankReport;
import org.nccl4j.api.observe.flight.RankReport.Failover;
import org.nccl4j.api.observe.flight.RankReport.Traffic;
import org.nccl4j.api.observe.http.PrometheusWriter.Family;

/**
 * Writes the state of a job in Prometheus' text format. A counter belongs to a communicator, so it
 * restarts with another communicator of the same name.
 */
final class JobMetrics {
  private static final double MILLIS = 1000;

  private static final Family RANKS = Family.gauge("nccl4j_job_ranks", "Ranks of the job.");
  private static final Family SILENT =
      Family.gauge("nccl4j_job_silent_ranks", "Ranks that gave no answer in time.");
  private static final Family GONE =
      Family.gauge(
          "nccl4j_job_gone_ranks",
          "Ranks that have left, have not come, or whose root gives no answer.");
  private static final Family UNREACHED =
      Family.gauge("nccl4j_job_unreached_roots", "Bootstrap roots that gave no answer.");
  private static final Family HEALTHY =
      Family.gauge("nccl4j_job_healthy", "1 if no rank is silent, gone, behind or has failed.");
  private static final Family BEHIND =
      Family.gauge("nccl4j_behind_collectives", "Collectives by which a rank is behind others.");
  private static final Family WAITS =
      Family.gauge("nccl4j_waits_for_seconds", "Time for which a rank waits for another.");

  /** The samples of each family by labels; equal labels are one sample. */
  private final Map<Family, Map<String, Double>> families = new LinkedHashMap<>();

  private JobMetrics() {
    List.of(
            RANKS,
            SILENT,
            GONE,
            UNREACHED,
            HEALTHY,
            RankFamilies.OPERATIONS,
            BEHIND,
            WAITS,
            RankFamilies.FAILED,
            RankFamilies.LINK_BYTES,
            RankFamilies.LINK_RECEIVED,
            RankFamilies.LINK_UNDER_WAY,
            RankFamilies.LINK_STALLED,
            RankFamilies.LINK_SPEED,
            RankFamilies.SLOW_LINK,
            RankFamilies.TAKE_OVERS,
            RankFamilies.BYTES_AGAIN)
        .forEach(family -> families.put(family, new LinkedHashMap<>()));
  }

  /** The state of a job. */
  static String of(JobReport job) {
    JobMetrics metrics = new JobMetrics();
    metrics.put(RANKS, "", job.nRanks());
    metrics.put(SILENT, "", job.silent().size());
    metrics.put(GONE, "", job.gone().size());
    metrics.put(UNREACHED, "", job.unreached().size());
    metrics.put(HEALTHY, "", job.isHealthy() ? 1 : 0);
    job.communicators().forEach(metrics::take);
    return metrics.text();
  }

  private void take(CommunicatorState state) {
    Map<Integer, String> labels = new HashMap<>();
    for (RankReport rank : state.ranks()) {
      take(rank);
      labels.put(rank.rank(), labels(rank));
    }
    for (LinkSpeeds.Speed each : state.speeds().all()) {
      put(
          RankFamilies.LINK_SPEED,
          labels(labels.get(each.rank()), each.link()),
          each.bytesPerSecond());
    }
    for (LinkSpeeds.Slow each : state.speeds().slow()) {
      LinkSpeeds.Speed speed = each.speed();
      put(RankFamilies.SLOW_LINK, labels(labels.get(speed.rank()), speed.link()), each.ratio());
    }
    for (Behind each : state.behind()) {
      put(BEHIND, labels(each.report()), each.collectives());
    }
  }

  private void take(RankReport rank) {
    String labels = labels(rank);
    put(RankFamilies.OPERATIONS, labels, rank.ended() + rank.replays().operations());
    put(RankFamilies.FAILED, labels, rank.failed() ? 1 : 0);
    if (rank.waitsFor() >= 0 && rank.current() != null) {
      put(
          WAITS,
          labels + "," + label("waits_for", String.valueOf(rank.waitsFor())),
          rank.stillMillis() / MILLIS);
    }
    for (Traffic link : rank.links().traffic()) {
      String to = labels(labels, link);
      put(RankFamilies.LINK_BYTES, to, link.bytes());
      if (!link.via().isEmpty()) {
        put(RankFamilies.LINK_RECEIVED, to, link.received());
        put(RankFamilies.LINK_UNDER_WAY, to, link.underWayMillis() / MILLIS);
        put(RankFamilies.LINK_STALLED, to, link.stalledMillis() / MILLIS);
      }
    }
    for (Failover each : rank.links().failovers()) {
      String to = labels + "," + RankFamilies.peer(each.peer());
      put(RankFamilies.TAKE_OVERS, to, each.what().count());
      put(RankFamilies.BYTES_AGAIN, to, each.what().bytesAgain());
    }
  }

  private static String labels(String rank, Traffic link) {
    return String.join(
        ",", rank, RankFamilies.peer(link.peer()), label("transport", link.transport()));
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

  /** Of two samples with equal labels, counters are added; of others the larger is taken. */
  private void put(Family family, String labels, double value) {
    families.get(family).merge(labels, value, family.isCounter() ? Double::sum : Math::max);
  }

  private String text() {
    PrometheusWriter writer = new PrometheusWriter();
    families.forEach(writer::write);
    return writer.toString();
  }
}
