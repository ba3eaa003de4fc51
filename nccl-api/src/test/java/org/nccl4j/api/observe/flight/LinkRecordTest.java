package org.nccl4j.api.observe.flight;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.FakeKernels;
import org.nccl4j.api.observe.flight.RankReport.Failover;
import org.nccl4j.api.observe.flight.RankReport.Recent;
import org.nccl4j.api.observe.flight.RankReport.Traffic;
import org.nccl4j.api.spi.Failovers;
import org.nccl4j.api.spi.LinkStatus;

/** The links of a rank in its flight recorder, as other processes and observers of jobs read it. */
class LinkRecordTest {
  private static final List<String> NAMES = List.of("all_reduce");
  private static final int RANKS = 64;

  private final FlightRecorder log =
      FlightRecorder.open(
          new FlightRecorder.Rank("links", System.nanoTime(), 3, RANKS, NAMES, "0000:1b:00.0"));

  private record Fixed(int peer, String transport, long bytesSent, Failovers failovers)
      implements Link {
    @Override
    public LinkStatus status() {
      return LinkStatus.sent(bytesSent, bytesSent, "", failovers);
    }

    Fixed(int peer, Failovers failovers) {
      this(peer, "NET", 0, failovers);
    }

    Fixed(int peer, String transport, long bytesSent) {
      this(peer, transport, bytesSent, Failovers.NONE);
    }
  }

  private void take(List<? extends Link> links) {
    log.observe(links, new FakeKernels());
  }

  @AfterEach
  void close() {
    log.close();
  }

  private RankReport.Links read() {
    return log.report(NAMES).links();
  }

  private static Link replaced(int peer, long count, long lastMillis, long again, String path) {
    return new Fixed(peer, new Failovers(count, lastMillis, again, path));
  }

  @Test
  void linksThatNothingHappenedToAreLeftOut() {
    take(List.of(new Fixed(1, Failovers.NONE), new Fixed(2, Failovers.NONE)));
    assertEquals(List.of(), read().failovers());
  }

  /** Two connections with one rank are one entry, with the path of the later failover. */
  @Test
  void failoversAreSummedByRank() {
    take(List.of(replaced(1, 1, 50, 7, "eth0"), new Fixed(2, Failovers.NONE)));
    assertEquals(List.of(new Failover(1, new Failovers(1, 50, 7, "eth0"))), read().failovers());
    take(
        List.of(
            replaced(1, 2, 60, 9, "eth1"),
            replaced(2, 1, 55, 4, "eth2"),
            replaced(1, 4, 40, 100, "eth3")));
    assertEquals(
        List.of(
            new Failover(1, new Failovers(6, 60, 109, "eth1")),
            new Failover(2, new Failovers(1, 55, 4, "eth2"))),
        read().failovers());
  }

  @Test
  void ranksWithoutAnEntryShareTheLast() {
    List<Link> all = new ArrayList<>();
    for (int peer = 10; peer < 20; peer++) {
      all.add(replaced(peer, 1, peer, 2, "card" + peer));
    }
    take(all);
    List<Failover> read = read().failovers();
    assertEquals(
        List.of(10, 11, 12, LinkRecord.OTHERS), read.stream().map(Failover::peer).toList());
    assertEquals(new Failovers(7, 19, 14, "card19"), read.get(3).what());
  }

  @Test
  void aLongPathIsCut() {
    take(List.of(replaced(1, 1, 1, 0, "x".repeat(100))));
    assertEquals("x".repeat(48), read().failovers().get(0).what().path());
  }

  @Test
  void trafficIsByRankAndTransport() {
    take(List.of(new Fixed(1, "SHM", 10), new Fixed(2, "NET", 0), new Fixed(3, "NET", 30)));
    assertEquals(List.of(new Traffic(1, "SHM", 10), new Traffic(3, "NET", 30)), read().traffic());
    take(List.of(new Fixed(1, "SHM", 15), new Fixed(2, "NET", 7), new Fixed(3, "NET", 30)));
    assertEquals(
        List.of(new Traffic(1, "SHM", 15), new Traffic(3, "NET", 30), new Traffic(2, "NET", 7)),
        read().traffic());
  }

  /** Bytes that are already sent stay counted, so that no sum falls. */
  @Test
  void trafficOfManyRanksIsSummedInTheLastEntry() {
    List<Link> all = new ArrayList<>();
    for (int peer = 0; peer < 30; peer++) {
      all.add(new Fixed(peer, "Transport-of-others", 100 + peer));
    }
    take(all);
    List<Traffic> read = read().traffic();
    assertEquals(LinkRecord.SENT_ENTRIES, read.size());
    assertEquals(new Traffic(18, "Transport-of", 118), read.get(18));
    int others = 0;
    for (int peer = 19; peer < 30; peer++) {
      others += 100 + peer;
    }
    assertEquals(new Traffic(LinkRecord.OTHERS, "several", others), read.get(19));
    take(all.subList(0, 1));
    assertEquals(read, read().traffic());
  }

  @Test
  void kernelsThatCountAreBelieved() {
    FakeKernels counting =
        new FakeKernels() {
          @Override
          public long bytesSent(int peer) {
            return 1000 + peer;
          }
        };
    log.observe(List.of(new Fixed(4, "P2P", 9)), counting);
    assertEquals(List.of(new Traffic(4, "P2P", 1004)), read().traffic());
  }

  /** A connection over a network; tests change its counts between looks. */
  private static final class Wire implements Link {
    private long sent;
    private long delivered;
    private long received;
    private boolean room;
    private String via = "Socket/eth0";

    @Override
    public int peer() {
      return 9;
    }

    @Override
    public String transport() {
      return "NET";
    }

    @Override
    public LinkStatus status() {
      return new LinkStatus(sent, delivered, received, room, via, Failovers.NONE);
    }
  }

  private Traffic look(Link link, long millis, boolean works) {
    take(List.of(link));
    log.observeFlows(millis, works);
    return read().traffic().get(0);
  }

  @Test
  void looksSampleWhetherDataAreUnderWay() {
    Wire wire = new Wire();
    take(List.of(wire));
    assertFalse(log.hasFlows());
    assertEquals(List.of(), read().traffic());
    wire.sent = 100;
    wire.delivered = 20;
    look(wire, 50, true);
    assertTrue(log.hasFlows());
    wire.delivered = 60;
    look(wire, 60, true);
    Traffic still = look(wire, 70, true);
    assertEquals("NET/Socket", still.kind());
    assertEquals("NET/Socket/eth0", still.way());
    assertEquals(
        new Traffic(9, "NET", "Socket/eth0", 100, 0, 180, 70, new Recent(180, 60, 180, 70, 0, 0)),
        still);
    // Between operations nobody finds out that data have arrived.
    assertEquals(180, look(wire, 80, false).underWayMillis());
    // The first look of an operation tells nothing of the time before it.
    assertEquals(70, look(wire, 30, true).stalledMillis());
    assertEquals(110, look(wire, 40, true).stalledMillis());
    wire.delivered = 100;
    assertEquals(250, look(wire, 50, true).underWayMillis());
  }

  @Test
  void looksSampleWhetherThereIsRoom() {
    Wire wire = new Wire();
    wire.received = 10;
    wire.room = true;
    look(wire, 50, true);
    look(wire, 50, false);
    wire.received = 30;
    wire.room = false;
    assertEquals(
        new Traffic(9, "NET", "Socket/eth0", 0, 30, 0, 0, new Recent(150, 0, 0, 0, 30, 50)),
        look(wire, 50, true));
  }

  /** The recent time is one to two periods of five seconds; before, all of it. */
  @Test
  void whatIsLongAgoIsForgotten() {
    Wire wire = new Wire();
    for (int second = 1; second <= 60; second++) {
      wire.sent += 1000;
      wire.delivered = second <= 20 ? wire.sent : wire.delivered + 10;
      Recent recent = look(wire, 1000, true).recent();
      long length = second <= 5 ? second : 5 + second % 5;
      assertEquals(length, recent.millis() / 1000, "second " + second);
      long fast = Math.max(0, Math.min(second, 20) - (second - length));
      assertEquals(1000 * fast + 10 * (length - fast), recent.bytes(), "second " + second);
      assertEquals(1000 * (length - fast), recent.underWayMillis(), "second " + second);
      assertEquals(0, recent.stalledMillis());
    }
  }

  /** Kernels alone count their bytes, and a look between two takes finds no others. */
  @Test
  void dataThatKernelsCountHaveArrived() {
    Link link = new Fixed(4, "P2P", 0);
    FakeKernels counting =
        new FakeKernels() {
          @Override
          public long bytesSent(int peer) {
            return 1000;
          }
        };
    log.observe(List.of(link), counting);
    log.observeFlows(50, true);
    assertEquals(new Recent(50, 1000, 0, 0, 0, 0), read().traffic().get(0).recent());
  }

  /** Another rank sends them (PXN), and this one does not learn when they arrive. */
  @Test
  void dataThatKernelsCountOverANetworkMayBeUnderWay() {
    Wire wire = new Wire();
    wire.received = 5;
    FakeKernels counting =
        new FakeKernels() {
          @Override
          public long bytesSent(int peer) {
            return 1000;
          }
        };
    log.observe(List.of(wire), counting);
    log.observeFlows(50, true);
    Traffic link = read().traffic().get(0);
    assertEquals(1000, link.bytes());
    assertEquals(new Recent(50, 0, 0, 0, 5, 0), link.recent());
  }

  /** Before it sends, the card that it receives by is there. */
  @Test
  void theCardIsTheOneThatTheRankSendsBy() {
    Wire wire = new Wire();
    wire.received = 5;
    assertEquals("NET/Socket/eth0", look(wire, 50, true).way());
    wire.via = "Socket/eth1";
    wire.sent = 7;
    assertEquals("NET/Socket/eth1", look(wire, 50, true).way());
  }

  @Test
  void anObserverOfTheJobGetsFlows() throws IOException {
    Wire wire = new Wire();
    wire.sent = 7;
    wire.received = 5;
    wire.room = true;
    look(wire, 50, true);
    look(wire, 50, true);
    RankReport report = log.report(NAMES);
    assertEquals(new Recent(100, 0, 100, 50, 5, 100), report.links().traffic().get(0).recent());
    byte[] message = StateMessage.encode(List.of(report));
    assertEquals(report.links(), StateMessage.decode(message, report.process()).get(0).links());
  }

  @Test
  void anObserverOfTheJobGetsThem() throws IOException {
    take(List.of(replaced(5, 3, 77, 8, "eth0 10.0.0.1 to 10.0.0.2"), new Fixed(2, "NET", 5)));
    RankReport report = log.report(NAMES);
    byte[] message = StateMessage.encode(List.of(report));
    assertEquals(report.links(), StateMessage.decode(message, report.process()).get(0).links());
    assertEquals("0000:1b:00.0", report.device());
    assertEquals(report.device(), StateMessage.decode(message, report.process()).get(0).device());
    assertEquals(1, ByteBuffer.wrap(message).getInt());
  }

  @Test
  void aFailoverInWords() {
    Failover many = new Failover(4, new Failovers(2, 1000, 512, "eth0 10.0.0.1 to 10.0.0.2"));
    assertEquals(
        "2 paths to rank 4 replaced, the last 3 s ago by eth0 10.0.0.1 to 10.0.0.2, 512 bytes sent"
            + " again",
        many.text(4000));
    Failover one = new Failover(LinkRecord.OTHERS, new Failovers(1, 1000, 0, ""));
    assertEquals(
        "1 path to other ranks replaced, the last 0 s ago, 0 bytes sent again", one.text(1));
  }
}
