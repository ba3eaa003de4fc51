package org.nccl4j.it.top;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.ToLongFunction;
import org.nccl4j.api.observe.LinkSpeeds;
import org.nccl4j.api.observe.flight.RankReport;
import org.nccl4j.api.observe.flight.RankReport.Replays;
import org.nccl4j.api.observe.flight.RankReport.Run;
import org.nccl4j.api.observe.flight.RankReport.Traffic;
import org.nccl4j.it.top.Frame.CommunicatorRates;
import org.nccl4j.it.top.Frame.Counts;
import org.nccl4j.it.top.Frame.LinkRates;
import org.nccl4j.it.top.Frame.RankRates;
import org.nccl4j.it.top.Frame.Wait;
import org.nccl4j.operation.Operation;

/**
 * Computes rates from looks at the ranks' records. A frame begins with the last look of the frame
 * before. One thread.
 */
final class Meter {
  /** Waits in fewer looks are of every operation. */
  private static final double LEAST_WAIT = 0.1;

  private static final int MOST_WAITS = 8;
  private static final double GIGABYTE = 1e9;

  /** A rank of a communicator in a process. */
  private record Key(long communicator, String host, long pid, int rank) {
    static Key of(RankReport report) {
      return new Key(
          report.communicator(), report.process().host(), report.process().pid(), report.rank());
    }
  }

  /** Sums over the frames in which a rank was seen. */
  private static final class Sums {
    double bytes;
    double busBytes;
    double waitSeconds;
  }

  /** Looks at a rank since the frame began. */
  private static final class Seen {
    final Sums sums;
    RankReport first;
    RankReport last;
    int looks;
    final Map<Integer, Integer> waits = new TreeMap<>();

    Seen(Sums sums) {
      this.sums = sums;
    }

    void look(RankReport report) {
      first = first == null ? report : first;
      last = report;
      looks++;
      if (report.current() != null && report.waitsFor() >= 0) {
        waits.merge(report.waitsFor(), 1, Integer::sum);
      }
    }
  }

  private Map<Key, Seen> seen = new HashMap<>();
  private long begunNanos;

  /**
   * Begins the first frame.
   *
   * @param nanos time of the look
   */
  Meter(List<RankReport> reports, long nanos) {
    begin(reports, nanos);
  }

  private void begin(List<RankReport> reports, long nanos) {
    Map<Key, Seen> before = seen;
    begunNanos = nanos;
    seen = new HashMap<>();
    for (RankReport report : reports) {
      Seen same = before.get(Key.of(report));
      Seen rank = new Seen(same == null ? new Sums() : same.sums);
      rank.first = report;
      rank.last = report;
      seen.put(Key.of(report), rank);
    }
  }

  /** Takes a look within a frame. */
  void look(List<RankReport> reports) {
    for (RankReport report : reports) {
      seen.computeIfAbsent(Key.of(report), key -> new Seen(new Sums())).look(report);
    }
  }

  /**
   * Takes the last look of a frame and begins the next one.
   *
   * @param reports of the ranks that are there; ranks that are gone are left out
   */
  Frame frame(List<RankReport> reports, long nanos, long millis) {
    look(reports);
    double seconds = (nanos - begunNanos) / 1e9;
    Map<String, List<Seen>> communicators = new TreeMap<>();
    for (RankReport report : reports) {
      communicators
          .computeIfAbsent(report.name() + "\t" + report.communicator(), name -> new ArrayList<>())
          .add(seen.get(Key.of(report)));
    }
    Frame frame =
        new Frame(
            millis,
            seconds,
            communicators.values().stream().map(ranks -> rates(ranks, seconds)).toList(),
            List.of());
    begin(reports, nanos);
    return frame;
  }

  private static CommunicatorRates rates(List<Seen> ranks, double seconds) {
    RankReport any = ranks.get(0).last;
    List<Wait> waits = new ArrayList<>();
    for (Seen rank : ranks) {
      rank.waits.forEach(
          (awaited, looks) ->
              waits.add(new Wait(rank.last.rank(), awaited, (double) looks / rank.looks)));
    }
    waits.removeIf(wait -> wait.share() < LEAST_WAIT);
    waits.sort(Comparator.comparingDouble(Wait::share).reversed().thenComparing(Wait::rank));
    return new CommunicatorRates(
        any.name(),
        any.communicator(),
        any.nRanks(),
        ranks.stream()
            .map(rank -> rates(rank, seconds))
            .sorted(Comparator.comparingInt(RankRates::rank))
            .toList(),
        List.copyOf(waits.subList(0, Math.min(MOST_WAITS, waits.size()))),
        LinkSpeeds.of(ranks.stream().map(rank -> rank.last).toList()));
  }

  private static RankRates rates(Seen rank, double seconds) {
    RankReport now = rank.last;
    long ended = Math.max(0, now.ended() - rank.first.ended());
    double known = 0;
    double bytes = 0;
    double busBytes = 0;
    for (Run run : now.runs()) {
      long some = Math.min(run.last(), now.ended()) - Math.max(run.first() - 1, rank.first.ended());
      if (some > 0) {
        known += some;
        double size = (double) some * run.bytes();
        Operation operation = Operation.find(run.label()).orElse(null);
        if (operation != null) {
          size *= operation.wholes(now.nRanks());
          bytes += size;
          busBytes += size * operation.busFactor(now.nRanks());
        }
      }
    }
    // Runs that have been overwritten since count as the known ones.
    double all = known == 0 ? 0 : ended / known;
    Replays graphs = since(now.replays(), rank.first.replays());
    bytes = bytes * all + graphs.bytes();
    busBytes = busBytes * all + graphs.busBytes();
    double scale = seconds <= 0 ? 0 : 1 / seconds / GIGABYTE;
    int waited = rank.waits.values().stream().mapToInt(Integer::intValue).sum();
    double waiting = rank.looks == 0 ? 0 : (double) waited / rank.looks;
    Sums sums = rank.sums;
    sums.bytes += bytes;
    sums.busBytes += busBytes;
    sums.waitSeconds += waiting * Math.max(0, seconds);
    return new RankRates(
        now.rank(),
        now.process(),
        new Counts(
            now.ended() + now.replays().operations(),
            Math.round(sums.bytes),
            Math.round(sums.busBytes),
            sums.waitSeconds),
        seconds <= 0 ? 0 : (ended + graphs.operations()) / seconds,
        bytes * scale,
        busBytes * scale,
        waiting,
        now.current() == null ? -1 : now.waitsFor(),
        now.current() != null ? now.current().text() : now.last() == null ? "" : now.last().text(),
        state(now, ended + graphs.operations()),
        links(rank, seconds),
        now.links().failovers(),
        now.device());
  }

  private static Replays since(Replays now, Replays before) {
    return new Replays(
        Math.max(0, now.operations() - before.operations()),
        Math.max(0, now.bytes() - before.bytes()),
        Math.max(0, now.busBytes() - before.busBytes()));
  }

  private static List<LinkRates> links(Seen rank, double seconds) {
    List<LinkRates> rates = new ArrayList<>();
    for (Traffic now : rank.last.links().traffic()) {
      rates.add(
          new LinkRates(
              now.peer(),
              now.transport(),
              now.via(),
              now.bytes(),
              rate(rank.first, now, Traffic::bytes, seconds),
              rate(rank.first, now, Traffic::received, seconds)));
    }
    return rates;
  }

  private static double rate(
      RankReport first, Traffic now, ToLongFunction<Traffic> bytes, double seconds) {
    long before =
        first.links().traffic().stream()
            .filter(each -> each.peer() == now.peer())
            .filter(each -> each.transport().equals(now.transport()))
            .mapToLong(bytes)
            .sum();
    long moved = Math.max(0, bytes.applyAsLong(now) - before);
    return seconds <= 0 ? 0 : moved / seconds / GIGABYTE;
  }

  private static String state(RankReport now, long ended) {
    if (now.failed()) {
      return "failed";
    }
    if (!now.process().state().isEmpty() && "TtZX".contains(now.process().state())) {
      return "stopped";
    }
    if (now.current() == null) {
      return ended > 0 ? "runs" : "idle";
    }
    return now.waitsFor() >= 0 ? "waits" : "runs";
  }
}
