package org.nccl4j.api.observe.flight;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.nccl4j.api.observe.flight.RankReport.Failover;
import org.nccl4j.api.observe.flight.RankReport.Links;
import org.nccl4j.api.observe.flight.RankReport.Recent;
import org.nccl4j.api.observe.flight.RankReport.Traffic;
import org.nccl4j.api.spi.Failovers;
import org.nccl4j.api.spi.LinkStatus;
import org.nccl4j.device.kernel.KernelCommunicator;

/**
 * The part of a flight recorder's slot about links; see the package's description for where things
 * lie. The first ranks have their own entries, in the order of their first event; all others share
 * the last entry. Owned by the thread that holds the observer's look.
 */
final class LinkRecord {
  static final int SENT = 3328;
  static final int SENT_BYTES = 120;
  static final int SENT_ENTRIES = RankReport.MOST_LINKS + 1;
  static final int TAKE_OVERS = 5728;
  static final int TAKE_OVER_BYTES = 72;
  static final int TAKE_OVER_ENTRIES = 4;

  /** Rank of the entry that others share. */
  static final int OTHERS = Traffic.OTHERS;

  private static final int TRANSPORT = 4;
  private static final int TRANSPORT_BYTES = 12;
  private static final int VIA = 16;
  private static final int VIA_BYTES = 24;
  private static final int SUM = 40;
  private static final int RECEIVED = 48;
  private static final int UNDER_WAY = 56;
  private static final int STALLED = 64;
  private static final int RECENT = 72;

  private static final int COUNT = 4;
  private static final int LAST = 8;
  private static final int AGAIN = 16;
  private static final int PATH = 24;
  private static final int PATH_BYTES = 48;

  private final ByteBuffer bytes;

  /** The traffic with each rank that has an entry of its own, in order. */
  private final List<LinkFlow> flows = new ArrayList<>();

  /** True if there are such ranks. Read by any thread that looks. */
  private volatile boolean anyFlow;

  /** Bytes of the entry that others share. */
  private long otherSent;

  private long otherReceived;

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
    flows.forEach(LinkFlow::clear);
    otherSent = 0;
    otherReceived = 0;
    Map<Integer, Failovers> replacements = Map.of();
    for (Link link : links) {
      long counted = link.isOfKernels() ? kernels.bytesSent(link.peer()) : -1;
      LinkStatus status = link.status();
      long sent = counted < 0 ? status.bytesSent() : counted;
      if (sent > 0 || status.bytesSent() > 0 || status.bytesReceived() > 0) {
        count(link, status, sent);
      }
      Failovers now = status.failovers();
      if (now.count() > 0) {
        replacements = replacements.isEmpty() ? new LinkedHashMap<>() : replacements;
        replacements.merge(entry(replaced, TAKE_OVER_ENTRIES, link.peer()), now, Failovers::and);
      }
    }
    for (int entry = 0; entry < flows.size(); entry++) {
      LinkFlow flow = flows.get(entry);
      put(entry, flow.peer(), flow.transport(), flow.via(), flow.sent(), flow.received());
    }
    if (otherSent > 0 || otherReceived > 0) {
      put(SENT_ENTRIES - 1, OTHERS, Traffic.SEVERAL, "", otherSent, otherReceived);
    }
    anyFlow = !flows.isEmpty();
    replacements.forEach(this::put);
  }

  private void count(Link link, LinkStatus status, long sent) {
    for (LinkFlow flow : flows) {
      if (flow.isOf(link)) {
        flow.add(link, status, sent);
        return;
      }
    }
    if (flows.size() < SENT_ENTRIES - 1) {
      LinkFlow flow = new LinkFlow(link);
      flows.add(flow);
      flow.add(link, status, sent);
    } else {
      otherSent += sent;
      otherReceived += status.bytesReceived();
    }
  }

  /** A reader takes an entry for empty until its transport is there. No sum falls. */
  private void put(int entry, int peer, String transport, String via, long sent, long received) {
    int at = SENT + entry * SENT_BYTES;
    boolean isNew = bytes.get(at + TRANSPORT) == 0;
    if (isNew || sent > 0 && bytes.getLong(at + SUM) == 0) {
      putText(at + VIA, via, VIA_BYTES);
    }
    if (isNew) {
      bytes.putInt(at, peer);
      putText(at + TRANSPORT, transport, TRANSPORT_BYTES);
    }
    bytes.putLong(at + SUM, Math.max(sent, bytes.getLong(at + SUM)));
    bytes.putLong(at + RECEIVED, Math.max(received, bytes.getLong(at + RECEIVED)));
  }

  /** True if there are ranks whose links {@link #look} samples. */
  boolean hasFlows() {
    return anyFlow;
  }

  /**
   * Samples which links have data under way.
   *
   * @param millis since the last look
   * @param works whether an operation that uses the links is under way
   */
  void look(long millis, boolean works) {
    for (int entry = 0; entry < flows.size(); entry++) {
      LinkFlow flow = flows.get(entry);
      flow.look(millis, works);
      int at = SENT + entry * SENT_BYTES;
      bytes.putLong(at + UNDER_WAY, flow.total().underWayMillis());
      bytes.putLong(at + STALLED, flow.total().stalledMillis());
      put(at + RECENT, flow.recent());
    }
  }

  private void put(int at, Recent recent) {
    bytes.putLong(at, recent.millis());
    bytes.putLong(at + 8, recent.bytes());
    bytes.putLong(at + 16, recent.underWayMillis());
    bytes.putLong(at + 24, recent.stalledMillis());
    bytes.putLong(at + 32, recent.received());
    bytes.putLong(at + 40, recent.roomMillis());
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
  private void put(int entry, Failovers sum) {
    int at = TAKE_OVERS + entry * TAKE_OVER_BYTES;
    bytes.putInt(at, entry < replaced.size() ? replaced.get(entry) : OTHERS);
    bytes.putLong(at + LAST, sum.lastMillis()).putLong(at + AGAIN, sum.bytesAgain());
    putText(at + PATH, sum.path(), PATH_BYTES);
    bytes.putInt(at + COUNT, (int) Math.min(Integer.MAX_VALUE, sum.count()));
  }

  /** Reads the entries of a slot. */
  static Links read(ByteBuffer page) {
    return new Links(traffic(page), failovers(page));
  }

  private static List<Traffic> traffic(ByteBuffer page) {
    List<Traffic> all = new ArrayList<>();
    for (int entry = 0; entry < SENT_ENTRIES; entry++) {
      int at = SENT + entry * SENT_BYTES;
      if (page.get(at + TRANSPORT) != 0) {
        all.add(
            new Traffic(
                page.getInt(at),
                FlightReader.text(page, at + TRANSPORT, TRANSPORT_BYTES),
                FlightReader.text(page, at + VIA, VIA_BYTES),
                page.getLong(at + SUM),
                page.getLong(at + RECEIVED),
                page.getLong(at + UNDER_WAY),
                page.getLong(at + STALLED),
                recent(page, at + RECENT)));
      }
    }
    return all;
  }

  private static Recent recent(ByteBuffer page, int at) {
    return new Recent(
        page.getLong(at),
        page.getLong(at + 8),
        page.getLong(at + 16),
        page.getLong(at + 24),
        page.getLong(at + 32),
        page.getLong(at + 40));
  }

  private static List<Failover> failovers(ByteBuffer page) {
    List<Failover> all = new ArrayList<>();
    for (int entry = 0; entry < TAKE_OVER_ENTRIES; entry++) {
      int at = TAKE_OVERS + entry * TAKE_OVER_BYTES;
      int count = page.getInt(at + COUNT);
      if (count > 0) {
        all.add(
            new Failover(
                page.getInt(at),
                new Failovers(
                    count,
                    page.getLong(at + LAST),
                    page.getLong(at + AGAIN),
                    FlightReader.text(page, at + PATH, PATH_BYTES))));
      }
    }
    return all;
  }
}
