package org.nccl4j.api.observe;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.OptionalDouble;
import java.util.TreeMap;
import org.nccl4j.api.observe.flight.RankReport;
import org.nccl4j.api.observe.flight.RankReport.Recent;
import org.nccl4j.api.observe.flight.RankReport.Traffic;

/**
 * The speeds of a communicator's links over networks in the last seconds, and those that are much
 * slower than others of their kind.
 *
 * <p>In a ring all links move the same bytes in the same time, at the pace of the slowest. So the
 * speed of a link is over the time in which both of its ends wait for it: the sender has data under
 * way, and the receiver has room for them. A rank that is late, or a link behind a slow one, does
 * not count as a slow link that way.
 *
 * <p>A link is compared if it has moved {@link #LEAST_BYTES}. It is slow if its speed is below half
 * the median of all compared links of its kind, at least {@link #LEAST_LINKS}, and both ends have
 * waited for it in at least a quarter of the time. It is stalled if it has moved less than {@link
 * #LEAST_BYTES}, and both ends have waited for it for {@link #STALLED_MILLIS} in which nothing
 * arrived.
 *
 * <p>A rank records the links with the first ranks that it exchanges data with. A link that its
 * receiver has not recorded is neither compared nor stalled, since nothing is known of the time in
 * which the receiver waited.
 *
 * @param all links that were compared, by rank
 * @param slow stalled links, then slow ones, the slowest first
 * @param unrecorded number of links that would have been compared if their receivers had recorded
 *     them
 */
public record LinkSpeeds(List<Speed> all, List<Slow> slow, int unrecorded) {
  /** Fewest bytes in the recent time with which a link is compared. */
  static final long LEAST_BYTES = 1 << 20;

  /** Fewest links of a kind that are compared. */
  static final int LEAST_LINKS = 3;

  /** Shortest recent time that says something: 40 looks. */
  static final long LEAST_MILLIS = 2000;

  static final long STALLED_MILLIS = 2000;
  private static final double SLOW = 0.5;
  private static final double LEAST_SHARE = 0.25;

  /** Time between two looks: what is under way for a shorter time may be seen at none. */
  private static final double LOOK_MILLIS = 50;

  private static final int SHOWN = 8;
  private static final double GIGA = 1e9;
  private static final double MEGA = 1e6;
  private static final double MILLIS = 1000;

  /**
   * A link's speed.
   *
   * @param rank that sends
   * @param link its peer, kind and bytes
   * @param bytesPerSecond while both ends waited for it
   * @param share of the recent time, 0 to 1, in which they did
   */
  public record Speed(int rank, Traffic link, double bytesPerSecond, double share) {
    private String name() {
      return "rank %d -> rank %d (%s)".formatted(rank, link.peer(), link.way());
    }
  }

  /**
   * A slow or stalled link.
   *
   * @param median bytes a second of all compared links of its kind; 0 if it is stalled
   * @param links number of these
   */
  public record Slow(Speed speed, double median, int links) {
    /** True if nearly nothing has arrived. */
    public boolean isStalled() {
      return links == 0;
    }

    /** Its speed relative to the median. */
    public double ratio() {
      return isStalled() ? 0 : speed.bytesPerSecond / median;
    }

    /** The link and its speed in one line. */
    public String text() {
      double seconds = speed.link.recent().millis() / MILLIS;
      String what =
          isStalled()
              ? "stalled link: %s: %d bytes have arrived"
                  .formatted(speed.name(), speed.link.recent().bytes())
              : String.format(
                  Locale.ROOT,
                  "slow link: %s: %s, others %s (median of %d)",
                  speed.name(),
                  rate(speed.bytesPerSecond),
                  rate(median),
                  links);
      return String.format(
          Locale.ROOT,
          "%s, with data under way in %.0f %% of the last %.1f s",
          what,
          100 * speed.share,
          seconds);
    }
  }

  private static String rate(double bytesPerSecond) {
    return bytesPerSecond < GIGA / 10
        ? String.format(Locale.ROOT, "%.1f MB/s", bytesPerSecond / MEGA)
        : String.format(Locale.ROOT, "%.2f GB/s", bytesPerSecond / GIGA);
  }

  /** The links of a communicator's ranks; those between ranks without a report are left out. */
  public static LinkSpeeds of(List<RankReport> ranks) {
    Map<Integer, RankReport> byRank = new TreeMap<>();
    ranks.forEach(rank -> byRank.put(rank.rank(), rank));
    List<Speed> compared = new ArrayList<>();
    List<Slow> slow = new ArrayList<>();
    int unrecorded = 0;
    for (RankReport rank : byRank.values()) {
      for (Traffic link : rank.links().traffic()) {
        RankReport peer = byRank.get(link.peer());
        Recent recent = link.recent();
        if (peer == null || link.via().isEmpty() || recent.millis() < LEAST_MILLIS) {
          continue;
        }
        OptionalDouble room = room(peer, rank, link);
        if (room.isEmpty()) {
          unrecorded += recent.bytes() >= LEAST_BYTES ? 1 : 0;
          continue;
        }
        double share =
            Math.min(share(recent.underWayMillis(), recent.millis()), room.getAsDouble());
        double awaited = Math.max(LOOK_MILLIS, share * recent.millis());
        Speed speed = new Speed(rank.rank(), link, recent.bytes() * MILLIS / awaited, share);
        if (recent.bytes() >= LEAST_BYTES) {
          compared.add(speed);
        } else if (awaited >= STALLED_MILLIS && recent.stalledMillis() >= STALLED_MILLIS) {
          slow.add(new Slow(speed, 0, 0));
        }
      }
    }
    addSlow(compared, slow);
    slow.sort(Comparator.comparingDouble(Slow::ratio));
    return new LinkSpeeds(List.copyOf(compared), List.copyOf(slow), unrecorded);
  }

  private static double share(long part, long millis) {
    return millis == 0 ? 0 : (double) part / millis;
  }

  /**
   * The share of the recent time in which the receiver had room for a link's data; empty if it has
   * not recorded the link.
   */
  private static OptionalDouble room(RankReport receiver, RankReport sender, Traffic link) {
    boolean isFull = false;
    for (Traffic each : receiver.links().traffic()) {
      if (each.peer() == sender.rank() && each.transport().equals(link.transport())) {
        Recent recent = each.recent();
        return OptionalDouble.of(share(recent.roomMillis(), recent.millis()));
      }
      isFull |= each.isOfSeveral();
    }
    if (isFull || link.recent().bytes() >= LEAST_BYTES) {
      return OptionalDouble.empty();
    }
    // A receiver with entries left has none of a link over which nothing has ever come.
    return OptionalDouble.of(
        receiver.current() == null
            ? 0
            : Math.min(1, share(receiver.stillMillis(), link.recent().millis())));
  }

  private static void addSlow(List<Speed> compared, List<Slow> slow) {
    Map<String, List<Speed>> kinds = new HashMap<>();
    compared.forEach(
        each -> kinds.computeIfAbsent(each.link.kind(), kind -> new ArrayList<>()).add(each));
    for (List<Speed> kind : kinds.values()) {
      if (kind.size() < LEAST_LINKS) {
        continue;
      }
      double[] sorted = kind.stream().mapToDouble(Speed::bytesPerSecond).sorted().toArray();
      double median = (sorted[(sorted.length - 1) / 2] + sorted[sorted.length / 2]) / 2;
      kind.stream()
          .filter(each -> each.share >= LEAST_SHARE && each.bytesPerSecond < SLOW * median)
          .forEach(each -> slow.add(new Slow(each, median, kind.size())));
    }
  }

  /**
   * Readable lines: the slow links, or that there is none, and the number of links that are left
   * out; empty if none has moved much.
   */
  public List<String> text() {
    List<String> lines = new ArrayList<>();
    slow.stream().limit(SHOWN).map(each -> "  " + each.text()).forEach(lines::add);
    if (slow.size() > SHOWN) {
      lines.add("  and %d more slow links".formatted(slow.size() - SHOWN));
    }
    if (slow.isEmpty() && !all.isEmpty()) {
      lines.add("  no slow link among %d over networks".formatted(all.size()));
    }
    if (unrecorded > 0) {
      lines.add(
          "  %d more links over networks are not compared: their receivers have recorded others"
                  .formatted(unrecorded)
              + " (each rank records its first %d)".formatted(RankReport.MOST_LINKS));
    }
    return lines;
  }
}
