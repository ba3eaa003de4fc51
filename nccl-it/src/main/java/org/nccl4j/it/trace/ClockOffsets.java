package org.nccl4j.it.trace;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;

/**
 * Corrections of hosts' clocks, from collectives that all ranks take part in: one ends on no rank
 * before the last rank has begun to launch it. So each bounds the difference of two clocks from
 * both sides. The processes of a host have its clock, and are moved together.
 *
 * <p>The result is the smallest correction that keeps all bounds. If the bounds contradict each
 * other, since clocks drift during the recording, the tightest ones between two hosts are left out:
 * 1 % of them, then more, half at most, which gives the offset in the middle of the recording.
 *
 * @param hosts nanoseconds to add to the times of each host
 * @param calls collectives with two ranks or more that were recorded
 * @param early those that still end on a rank before another has begun to launch them
 * @param earlyNanos by so much at most
 */
record ClockOffsets(Map<String, Long> hosts, int calls, int early, long earlyNanos) {
  /** Shares of the bounds between two hosts that are left out, one after the other. */
  private static final double[] LEFT_OUT = {0, 0.01, 0.05, 0.1, 0.25, 0.5};

  /** Bounds between two hosts that are looked at, at most: enough for a share of 1 %. */
  private static final int MOST_BOUNDS = 4000;

  /** Contradictions of less come from the resolution of recordings. */
  private static final long LEAST_NANOS = 10_000;

  private static final double MILLI_NANOS = 1e6;

  private record Call(long communicator, long number) {}

  /**
   * The calls of a host: latest begin and earliest end among its ranks, by the call's index; {@link
   * Long#MIN_VALUE} and {@link Long#MAX_VALUE} where it has none.
   */
  private record Times(long[] begins, long[] ends) {
    Times(int calls) {
      this(new long[calls], new long[calls]);
      Arrays.fill(begins, Long.MIN_VALUE);
      Arrays.fill(ends, Long.MAX_VALUE);
    }

    boolean has(int call) {
      return begins[call] != Long.MIN_VALUE;
    }
  }

  /** The corrections for spans. */
  static ClockOffsets of(List<Span> spans) {
    Map<Call, Integer> indices = new HashMap<>();
    for (Span span : spans) {
      if (span.call() > 0) {
        indices.putIfAbsent(new Call(span.communicator(), span.call()), indices.size());
      }
    }
    Map<String, Times> times = new LinkedHashMap<>();
    int[] ranks = new int[indices.size()];
    for (Span span : spans) {
      Times of = times.computeIfAbsent(span.process().host(), host -> new Times(indices.size()));
      if (span.call() > 0) {
        int call = indices.get(new Call(span.communicator(), span.call()));
        ranks[call]++;
        of.begins[call] = Math.max(of.begins[call], span.beginNanos());
        of.ends[call] = Math.min(of.ends[call], span.endNanos());
      }
    }
    List<Times> hosts = List.copyOf(times.values());
    long[] offsets = solve(hosts);
    Map<String, Long> byHost = new LinkedHashMap<>();
    for (String host : times.keySet()) {
      byHost.put(host, offsets[byHost.size()]);
    }
    int calls = 0;
    int early = 0;
    long earlyNanos = 0;
    for (int call = 0; call < ranks.length; call++) {
      calls += ranks[call] > 1 ? 1 : 0;
      long by = early(hosts, offsets, call);
      early += by >= LEAST_NANOS ? 1 : 0;
      earlyNanos = Math.max(earlyNanos, by >= LEAST_NANOS ? by : 0);
    }
    return new ClockOffsets(byHost, calls, early, earlyNanos);
  }

  /** The nanoseconds by which a call ends too early on some rank, as corrected. */
  private static long early(List<Times> hosts, long[] offsets, int call) {
    long begin = Long.MIN_VALUE;
    long end = Long.MAX_VALUE;
    for (int host = 0; host < offsets.length; host++) {
      Times times = hosts.get(host);
      if (times.has(call)) {
        begin = Math.max(begin, times.begins[call] + offsets[host]);
        end = Math.min(end, times.ends[call] + offsets[host]);
      }
    }
    return begin == Long.MIN_VALUE ? 0 : Math.max(0, begin - end);
  }

  private static long[] solve(List<Times> hosts) {
    int n = hosts.size();
    double[][][] most = new double[LEFT_OUT.length][n][n];
    for (int p = 0; p < n; p++) {
      for (int q = 0; q < n; q++) {
        long[] bounds = p == q ? new long[] {0} : bounds(hosts.get(p), hosts.get(q));
        for (int share = 0; share < LEFT_OUT.length; share++) {
          most[share][p][q] =
              bounds.length == 0
                  ? Double.POSITIVE_INFINITY
                  : bounds[(int) (LEFT_OUT[share] * bounds.length)];
        }
      }
    }
    for (double[][] each : most) {
      double[][] closed = Arrays.stream(each).map(double[]::clone).toArray(double[][]::new);
      if (closes(closed)) {
        return smallest(closed);
      }
    }
    return smallest(most[LEFT_OUT.length - 1]);
  }

  /**
   * The most by which the offset of one host can exceed that of another, by each call, sorted: the
   * other's end and offset are not before this one's begin and offset.
   */
  private static long[] bounds(Times mine, Times theirs) {
    long[] bounds = new long[mine.begins.length];
    int n = 0;
    for (int call = 0; call < bounds.length; call++) {
      if (mine.has(call) && theirs.has(call)) {
        bounds[n++] = theirs.ends[call] - mine.begins[call];
      }
    }
    if (n <= MOST_BOUNDS) {
      long[] all = Arrays.copyOf(bounds, n);
      Arrays.sort(all);
      return all;
    }
    return thinned(bounds, n);
  }

  /** The least of each of some successive bounds, sorted, so that none that matters is missing. */
  private static long[] thinned(long[] bounds, int n) {
    long[] some = new long[MOST_BOUNDS];
    Arrays.fill(some, Long.MAX_VALUE);
    for (int each = 0; each < n; each++) {
      int part = (int) ((long) each * MOST_BOUNDS / n);
      some[part] = Math.min(some[part], bounds[each]);
    }
    Arrays.sort(some);
    return some;
  }

  /** Adds the bounds that follow over a third host; false once they contradict each other. */
  private static boolean closes(double[][] most) {
    for (int via = 0; via < most.length; via++) {
      for (int from = 0; from < most.length; from++) {
        for (int to = 0; to < most.length; to++) {
          most[from][to] = Math.min(most[from][to], most[from][via] + most[via][to]);
        }
        if (most[from][from] < 0) {
          return false;
        }
      }
    }
    return true;
  }

  /**
   * Takes the smallest correction for one host after the other, which closed bounds allow without
   * looking ahead. Between bounds that contradict each other it takes the middle.
   */
  private static long[] smallest(double[][] most) {
    long[] found = new long[most.length];
    for (int p = 0; p < found.length; p++) {
      double low = Double.NEGATIVE_INFINITY;
      double high = Double.POSITIVE_INFINITY;
      for (int q = 0; q < p; q++) {
        low = Math.max(low, found[q] - most[q][p]);
        high = Math.min(high, found[q] + most[p][q]);
      }
      found[p] = Math.round(low > high ? (low + high) / 2 : Math.max(low, Math.min(high, 0)));
    }
    return found;
  }

  /** Nanoseconds to add to a span's times. */
  long of(Span span) {
    return hosts.getOrDefault(span.process().host(), 0L);
  }

  /** Lines that say what was moved, and what is wrong nevertheless. */
  List<String> text() {
    List<String> lines = new ArrayList<>();
    hosts.forEach(
        (host, nanos) -> {
          if (nanos != 0) {
            lines.add("the clock of %s was moved by %s".formatted(host, millis(nanos)));
          }
        });
    contradiction().ifPresent(lines::add);
    return lines;
  }

  private Optional<String> contradiction() {
    return early == 0
        ? Optional.empty()
        : Optional.of(
            "%d of %d collectives end on a rank up to %s before another calls them: clocks drift; record for a shorter time"
                .formatted(early, calls, millis(earlyNanos)));
  }

  private static String millis(long nanos) {
    return String.format(Locale.ROOT, "%.3f ms", nanos / MILLI_NANOS);
  }
}
