package org.nccl4j.it.top;

import static org.nccl4j.api.observe.http.PrometheusWriter.label;

import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;
import org.nccl4j.api.observe.LinkSpeeds;
import org.nccl4j.api.observe.flight.RankReport.Failover;
import org.nccl4j.api.observe.flight.RankReport.ProcessReport;
import org.nccl4j.api.observe.http.PrometheusWriter;
import org.nccl4j.api.observe.http.PrometheusWriter.Family;
import org.nccl4j.api.observe.http.RankFamilies;
import org.nccl4j.it.top.Frame.CommunicatorRates;
import org.nccl4j.it.top.Frame.LinkRates;
import org.nccl4j.it.top.Frame.RankRates;
import org.nccl4j.it.top.Frame.Wait;

/**
 * Counters and gauges of the frames in Prometheus' text format. A counter ends with its process, or
 * some minutes after its communicators, so that the last values are scraped and a program that
 * creates communicators again and again does not add series without end. A gauge ends with its
 * communicator. For one thread.
 */
final class PrometheusText {
  private static final Family BYTES =
      Family.counter(
          "nccl4j_operation_bytes_total",
          "Bytes of the data of operations that ended, as nccl-tests count them.");
  private static final Family BUS_BYTES =
      Family.counter("nccl4j_bus_bytes_total", "The same bytes times nccl-tests' bus factor.");
  private static final Family WAIT_SECONDS =
      Family.counter(
          "nccl4j_wait_seconds_total",
          "Time in which the rank's kernel waited for another rank, by samples.");
  private static final Family STOPPED =
      Family.gauge("nccl4j_stopped", "1 if the rank's process is stopped.");
  private static final Family WAIT_RATIO =
      Family.gauge("nccl4j_wait_ratio", "Share of samples in which a rank waited.");
  private static final Family RANKS =
      Family.gauge("nccl4j_communicator_ranks", "Ranks of a communicator.");

  /** Longer than the usual time between two scrapes, which is a minute at most. */
  private static final long KEPT_MILLIS = 300_000;

  private final Map<Family, Totals> counters = new LinkedHashMap<>();
  private final Predicate<ProcessReport> lives;

  /** The processes that have counters, by their labels. */
  private final Map<String, ProcessReport> processes = new HashMap<>();

  private Map<Family, Map<String, Double>> gauges = Map.of();

  /**
   * No counters yet.
   *
   * @param lives false for a process that has ended, and its counters with it
   */
  PrometheusText(Predicate<ProcessReport> lives) {
    this.lives = lives;
    for (Family family :
        List.of(
            RankFamilies.OPERATIONS,
            BYTES,
            BUS_BYTES,
            WAIT_SECONDS,
            RankFamilies.LINK_BYTES,
            RankFamilies.TAKE_OVERS,
            RankFamilies.BYTES_AGAIN)) {
      counters.put(family, new Totals());
    }
  }

  /** Takes a frame. Communicators of one name in one process have their sum. */
  void add(Frame frame) {
    gauges = new LinkedHashMap<>();
    for (Family family :
        List.of(
            RankFamilies.FAILED,
            STOPPED,
            WAIT_RATIO,
            RANKS,
            RankFamilies.LINK_SPEED,
            RankFamilies.SLOW_LINK)) {
      gauges.put(family, new LinkedHashMap<>());
    }
    for (CommunicatorRates communicator : frame.communicators()) {
      String name = label("communicator", communicator.name());
      gauges.get(RANKS).merge(name, (double) communicator.nRanks(), Math::max);
      // Waits name ranks alone, which one process has or, after a restart, several.
      Map<Integer, String> places = new HashMap<>();
      for (RankRates rank : communicator.ranks()) {
        String process =
            label("host", rank.process().host())
                + ","
                + label("pid", String.valueOf(rank.process().pid()));
        String labels = name + "," + label("rank", String.valueOf(rank.rank())) + "," + process;
        places.put(rank.rank(), labels);
        processes.put(process, rank.process());
        new Place(labels, process, communicator.id(), frame.millis()).count(rank);
        gauge(RankFamilies.FAILED, labels, rank.state().equals("failed") ? 1 : 0);
        gauge(STOPPED, labels, rank.state().equals("stopped") ? 1 : 0);
      }
      for (Wait wait : communicator.waits()) {
        String place = places.getOrDefault(wait.rank(), name);
        gauge(
            WAIT_RATIO,
            place + "," + label("waits_for", String.valueOf(wait.waitsFor())),
            wait.share());
      }
      for (LinkSpeeds.Speed speed : communicator.speeds().all()) {
        gauge(RankFamilies.LINK_SPEED, labels(speed, places), speed.bytesPerSecond());
      }
      for (LinkSpeeds.Slow slow : communicator.speeds().slow()) {
        gauge(RankFamilies.SLOW_LINK, labels(slow.speed(), places), slow.ratio());
      }
    }
    processes.values().removeIf(lives.negate());
    counters.values().forEach(each -> each.keep(processes.keySet(), frame.millis() - KEPT_MILLIS));
  }

  private static String labels(LinkSpeeds.Speed speed, Map<Integer, String> places) {
    return places.get(speed.rank()) + to(speed.link().peer(), speed.link().transport());
  }

  private static String to(int peer, String transport) {
    return "," + RankFamilies.peer(peer) + "," + label("transport", transport);
  }

  private void gauge(Family family, String labels, double value) {
    gauges.get(family).merge(labels, value, Math::max);
  }

  /** The labels of a rank of a communicator. */
  private final class Place {
    private final String labels;
    private final String process;
    private final long communicator;
    private final long millis;

    Place(String labels, String process, long communicator, long millis) {
      this.labels = labels;
      this.process = process;
      this.communicator = communicator;
      this.millis = millis;
    }

    void count(RankRates rank) {
      take(RankFamilies.OPERATIONS, "", rank.counts().operations());
      take(BYTES, "", rank.counts().bytes());
      take(BUS_BYTES, "", rank.counts().busBytes());
      take(WAIT_SECONDS, "", rank.counts().waitSeconds());
      for (LinkRates link : rank.links()) {
        take(RankFamilies.LINK_BYTES, to(link.peer(), link.transport()), link.bytes());
      }
      for (Failover each : rank.failovers()) {
        String peer = "," + RankFamilies.peer(each.peer());
        take(RankFamilies.TAKE_OVERS, peer, each.what().count());
        take(RankFamilies.BYTES_AGAIN, peer, each.what().bytesAgain());
      }
    }

    private void take(Family family, String further, double count) {
      counters.get(family).take(labels + further, process, communicator, count, millis);
    }
  }

  /** All families, each with its samples. */
  @Override
  public String toString() {
    PrometheusWriter writer = new PrometheusWriter();
    counters.forEach((family, totals) -> writer.write(family, totals.values()));
    gauges.forEach(writer::write);
    return writer.toString();
  }
}
