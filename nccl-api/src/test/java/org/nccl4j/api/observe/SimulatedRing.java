package org.nccl4j.api.observe;

import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
import org.nccl4j.api.observe.flight.RankReport;
import org.nccl4j.api.observe.flight.RankReport.Operation;
import org.nccl4j.api.observe.flight.RankReport.ProcessReport;
import org.nccl4j.api.observe.flight.RankReport.Recent;
import org.nccl4j.api.observe.flight.RankReport.Traffic;

/**
 * The reports of ranks that form a ring, one on each host, while it works: all links have moved the
 * same bytes in the last 8 seconds, and have had data under way in a tenth of them.
 */
public final class SimulatedRing {
  static final long MILLIS = 8000;
  static final long BYTES = 4_000_000_000L;
  static final String VIA = "Socket/eth0";

  private final int nRanks;

  /** The link from each rank to the next, as its sender and its receiver know it. */
  private final Recent[] sent;

  private final Recent[] received;
  private final String[] via;

  /** A ring without a slow link. */
  public SimulatedRing(int nRanks) {
    this.nRanks = nRanks;
    sent = new Recent[nRanks];
    received = new Recent[nRanks];
    via = new String[nRanks];
    for (int rank = 0; rank < nRanks; rank++) {
      via[rank] = VIA;
      with(rank, BYTES, MILLIS / 10, 0, MILLIS * 9 / 10);
    }
  }

  /**
   * Replaces what is known of the link from a rank.
   *
   * @param underWay ms with data under way
   * @param stalled the part in which nothing arrived
   * @param room ms in which the next rank had room
   */
  SimulatedRing with(int from, long bytes, long underWay, long stalled, long room) {
    sent[from] = new Recent(MILLIS, bytes, underWay, stalled, 0, 0);
    received[from] = new Recent(MILLIS, 0, 0, 0, bytes, room);
    return this;
  }

  /** A link that has data under way all the time, while the next rank waits for them. */
  public SimulatedRing withSlowLink(int from) {
    return with(from, BYTES, MILLIS * 95 / 100, 0, MILLIS);
  }

  SimulatedRing by(int from, String network) {
    via[from] = network;
    return this;
  }

  /** A rank's report. */
  public RankReport report(int rank) {
    int next = (rank + 1) % nRanks;
    int before = (rank + nRanks - 1) % nRanks;
    List<Traffic> traffic = new ArrayList<>();
    Recent out = sent[rank];
    traffic.add(
        new Traffic(
            next,
            "NET",
            via[rank],
            10 * out.bytes(),
            0,
            10 * out.underWayMillis(),
            10 * out.stalledMillis(),
            out));
    Recent in = received[before];
    if (in.received() > 0) {
      traffic.add(new Traffic(before, "NET", VIA, 0, 10 * in.received(), 0, 0, in));
    }
    return report(rank, nRanks, traffic);
  }

  /** The report of a rank that waits for the one before it, with any links. */
  static RankReport report(int rank, int nRanks, List<Traffic> traffic) {
    int before = (rank + nRanks - 1) % nRanks;
    return new RankReport(
        new ProcessReport("host" + rank, 100 + rank, ""),
        7,
        "ring",
        rank,
        nRanks,
        9,
        8,
        9,
        before,
        MILLIS,
        1,
        false,
        new RankReport.Front(0, 0, 0, 0),
        List.of(new Operation(9, 9, "all_reduce", 0, 1000, 4000, "all_reduce of 1000 float (sum)")),
        List.of(),
        new RankReport.Links(traffic, List.of()),
        "",
        RankReport.Replays.NONE);
  }

  List<RankReport> reports() {
    return IntStream.range(0, nRanks).mapToObj(this::report).toList();
  }
}
