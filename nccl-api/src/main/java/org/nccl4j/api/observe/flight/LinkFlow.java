package org.nccl4j.api.observe.flight;

import java.util.ArrayList;
import java.util.List;
import org.nccl4j.api.observe.flight.RankReport.Recent;
import org.nccl4j.api.spi.LinkStatus;

/**
 * The data of a rank's connections with another rank over time. Each look samples if data are under
 * way, so moving data costs nothing more. Owned by the thread that holds the observer's look.
 */
final class LinkFlow {
  /** The recent time is one to two of these. */
  static final long PERIOD_MILLIS = 5000;

  private final int peer;
  private final String transport;

  /** The connections: one, but for a moment when it was made anew. */
  private final List<Link> links = new ArrayList<>(1);

  /** Another one when the rank, which has only received so far, sends. */
  private String via = "";

  /** Bytes sent and received so far. */
  private long sent;

  private long received;

  /** All so far, as of the last look. */
  private Recent total = Recent.NONE;

  /** The same when this period began, and when the one before did. */
  private Recent begin = Recent.NONE;

  private Recent beginBefore = Recent.NONE;

  /** True if data were under way at the last look. */
  private boolean wasUnderWay;

  LinkFlow(Link first) {
    peer = first.peer();
    transport = first.transport();
  }

  int peer() {
    return peer;
  }

  String transport() {
    return transport;
  }

  String via() {
    return via;
  }

  boolean isOf(Link link) {
    return peer == link.peer() && transport.equals(link.transport());
  }

  /** Begins to count all of the connections' bytes anew. */
  void clear() {
    links.clear();
    sent = 0;
    received = 0;
  }

  /**
   * Counts a connection's bytes.
   *
   * @param status as the connection has it now
   * @param bytes sent, whoever counts them
   */
  void add(Link link, LinkStatus status, long bytes) {
    links.add(link);
    via = status.via();
    sent += bytes;
    received += status.bytesReceived();
  }

  long sent() {
    return sent;
  }

  long received() {
    return received;
  }

  /**
   * Samples the connections.
   *
   * @param millis since the last look
   * @param works whether an operation that uses them is under way
   */
  void look(long millis, boolean works) {
    long counted = 0;
    long arrived = 0;
    long came = 0;
    boolean underWay = false;
    boolean room = !links.isEmpty();
    for (Link link : links) {
      LinkStatus now = link.status();
      counted += now.bytesSent();
      arrived += now.bytesDelivered();
      underWay |= now.bytesSent() > now.bytesDelivered();
      came += now.bytesReceived();
      room &= now.hasRoom();
    }
    // Where kernels alone count, their bytes have arrived. Over a network nobody knows that:
    // another
    // rank sends them (PXN).
    arrived = counted == 0 && via.isEmpty() ? sent : arrived;
    boolean awaited = works && underWay;
    boolean still = awaited && wasUnderWay && arrived == total.bytes();
    total =
        new Recent(
            total.millis() + millis,
            Math.max(arrived, total.bytes()),
            total.underWayMillis() + (awaited ? millis : 0),
            total.stalledMillis() + (still ? millis : 0),
            Math.max(came, total.received()),
            total.roomMillis() + (works && room ? millis : 0));
    wasUnderWay = awaited;
    if (total.millis() - begin.millis() >= PERIOD_MILLIS) {
      beginBefore = begin;
      begin = total;
    }
  }

  /** All so far, as of the last look. */
  Recent total() {
    return total;
  }

  /** The recent time. */
  Recent recent() {
    return total.since(beginBefore);
  }
}
