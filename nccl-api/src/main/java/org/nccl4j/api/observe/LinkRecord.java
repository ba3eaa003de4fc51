package org.nccl4j.api.observe;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.nccl4j.api.observe.RankReport.Links;
import org.nccl4j.api.observe.RankReport.TakeOver;
import org.nccl4j.api.spi.TakeOvers;

/**
 * The part of a flight recorder's slot about links; see the package's description for where things
 * lie. The first ranks have entries of their own, in the order of their first event; all others
 * share the last entry. Owned by the thread that holds the observer's look.
 */
final class LinkRecord {
  static final int TAKE_OVERS = 3808;
  static final int TAKE_OVER_BYTES = 72;
  static final int TAKE_OVER_ENTRIES = 4;

  /** Rank of the entry that others share. */
  static final int OTHERS = -1;

  private static final int COUNT = 4;
  private static final int LAST = 8;
  private static final int AGAIN = 16;
  private static final int PATH = 24;
  private static final int PATH_BYTES = 48;

  private final ByteBuffer bytes;

  /** Ranks with entries of their own, in order. */
  private final List<Integer> replaced = new ArrayList<>();

  LinkRecord(ByteBuffer bytes) {
    this.bytes = bytes;
  }

  /** Takes down the state of all links. */
  void take(List<? extends Link> links) {
    Map<Integer, TakeOvers> sums = new LinkedHashMap<>();
    for (Link link : links) {
      TakeOvers now = link.takeOvers();
      if (now.count() > 0) {
        sums.merge(entry(replaced, TAKE_OVER_ENTRIES, link.peer()), now, TakeOvers::and);
      }
    }
    sums.forEach(this::put);
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
    byte[] path = sum.path().getBytes(StandardCharsets.UTF_8);
    byte[] text = new byte[PATH_BYTES];
    System.arraycopy(path, 0, text, 0, Math.min(path.length, PATH_BYTES));
    bytes.putInt(at, entry < replaced.size() ? replaced.get(entry) : OTHERS);
    bytes.putLong(at + LAST, sum.lastMillis()).putLong(at + AGAIN, sum.bytesAgain());
    bytes.put(at + PATH, text);
    bytes.putInt(at + COUNT, (int) Math.min(Integer.MAX_VALUE, sum.count()));
  }

  /** Reads the entries of a slot. */
  static Links read(ByteBuffer page) {
    return new Links(takeOvers(page));
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
