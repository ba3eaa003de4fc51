package org.nccl4j.api.observe.flight;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.nccl4j.api.observe.flight.RankReport.Links;
import org.nccl4j.api.observe.flight.RankReport.TakeOver;
import org.nccl4j.api.observe.flight.RankReport.Traffic;
import org.nccl4j.api.spi.TakeOvers;
import org.nccl4j.device.kernel.KernelCommunicator;

/**
 * The part of a flight recorder's slot about links; see the package's description for where things
 * lie. The first ranks have their own entries, in the order of their first event; all others share
 * the last entry. Owned by the thread that holds the observer's look.
 */
final class LinkRecord {
  static final int SENT = 3328;
  static final int SENT_BYTES = 24;
  static final int SENT_ENTRIES = 20;
  static final int TAKE_OVERS = 3808;
  static final int TAKE_OVER_BYTES = 72;
  static final int TAKE_OVER_ENTRIES = 4;

  /** Rank of the entry that others share. */
  static final int OTHERS = -1;

  /** Transport of that entry. */
  private static final String SEVERAL = "several";

  private static final int TRANSPORT = 4;
  private static final int TRANSPORT_BYTES = 12;
  private static final int SUM = 16;

  private static final int COUNT = 4;
  private static final int LAST = 8;
  private static final int AGAIN = 16;
  private static final int PATH = 24;
  private static final int PATH_BYTES = 48;

  private final ByteBuffer bytes;

  /** A rank with an entry of traffic of its own. */
  private record Way(int peer, String transport) {}

  /** Those, in order. */
  private final List<Way> ways = new ArrayList<>();

  private final long[] sums = new long[SENT_ENTRIES];

  /** Ranks with entries of their own, in order. */
  private final List<Integer> replaced = new ArrayList<>();

  LinkRecord(ByteBuffer bytes) {
    this.bytes = bytes;
  }

  /**
   * Takes down the state of all links.
   *
   * @param kernels count the bytes on some devices
   */
  void take(List<? extends Link> links, KernelCommunicator kernels) {
    Arrays.fill(sums, 0);
    Map<Integer, TakeOvers> replacements = Map.of();
    for (Link link : links) {
      long counted = kernels.bytesSent(link.peer());
      long sent = counted < 0 ? link.bytesSent() : counted;
      if (sent > 0) {
        sums[wayOf(link)] += sent;
      }
      TakeOvers now = link.takeOvers();
      if (now.count() > 0) {
        replacements = replacements.isEmpty() ? new LinkedHashMap<>() : replacements;
        replacements.merge(entry(replaced, TAKE_OVER_ENTRIES, link.peer()), now, TakeOvers::and);
      }
    }
    for (int entry = 0; entry < SENT_ENTRIES; entry++) {
      if (sums[entry] > bytes.getLong(SENT + entry * SENT_BYTES + SUM)) {
        put(entry, sums[entry]);
      }
    }
    replacements.forEach(this::put);
  }

  private int wayOf(Link link) {
    for (int way = 0; way < ways.size(); way++) {
      if (ways.get(way).peer == link.peer() && ways.get(way).transport.equals(link.transport())) {
        return way;
      }
    }
    if (ways.size() == SENT_ENTRIES - 1) {
      return SENT_ENTRIES - 1;
    }
    ways.add(new Way(link.peer(), link.transport()));
    return ways.size() - 1;
  }

  /** A reader takes an entry for empty until its sum is there. */
  private void put(int entry, long sum) {
    int at = SENT + entry * SENT_BYTES;
    bytes.putInt(at, entry < ways.size() ? ways.get(entry).peer : OTHERS);
    putText(
        at + TRANSPORT, entry < ways.size() ? ways.get(entry).transport : SEVERAL, TRANSPORT_BYTES);
    bytes.putLong(at + SUM, sum);
  }

  private void putText(int at, String text, int most) {
    byte[] letters = text.getBytes(StandardCharsets.UTF_8);
    bytes.put(at, Arrays.copyOf(letters, most));
  }

  /** Returns the entry of a rank: a new one, if there is room. */
  private static int entry(List<Integer> known, int entries, int peer) {
    int at = known.indexOf(peer);
    if (at < 0 && known.size() < entries - 1) {
      known.add(peer);
      at = known.size() - 1;
    }
    return at < 0 ? entries - 1 : at;
  }

  /** A reader takes an entry for empty until its count is there. */
  private void put(int entry, TakeOvers sum) {
    int at = TAKE_OVERS + entry * TAKE_OVER_BYTES;
    bytes.putInt(at, entry < replaced.size() ? replaced.get(entry) : OTHERS);
    bytes.putLong(at + LAST, sum.lastMillis()).putLong(at + AGAIN, sum.bytesAgain());
    putText(at + PATH, sum.path(), PATH_BYTES);
    bytes.putInt(at + COUNT, (int) Math.min(Integer.MAX_VALUE, sum.count()));
  }

  /** Reads the entries of a slot. */
  static Links read(ByteBuffer page) {
    return new Links(traffic(page), takeOvers(page));
  }

  private static List<Traffic> traffic(ByteBuffer page) {
    List<Traffic> all = new ArrayList<>();
    for (int entry = 0; entry < SENT_ENTRIES; entry++) {
      int at = SENT + entry * SENT_BYTES;
      long sum = page.getLong(at + SUM);
      if (sum > 0) {
        all.add(
            new Traffic(
                page.getInt(at), FlightReader.text(page, at + TRANSPORT, TRANSPORT_BYTES), sum));
      }
    }
    return all;
  }

  private static List<TakeOver> takeOvers(ByteBuffer page) {
    List<TakeOver> all = new ArrayList<>();
    for (int entry = 0; entry < TAKE_OVER_ENTRIES; entry++) {
      int at = TAKE_OVERS + entry * TAKE_OVER_BYTES;
      int count = page.getInt(at + COUNT);
      if (count > 0) {
        all.add(
            new TakeOver(
                page.getInt(at),
                new TakeOvers(
                    count,
                    page.getLong(at + LAST),
                    page.getLong(at + AGAIN),
                    FlightReader.text(page, at + PATH, PATH_BYTES))));
      }
    }
    return all;
  }
}
