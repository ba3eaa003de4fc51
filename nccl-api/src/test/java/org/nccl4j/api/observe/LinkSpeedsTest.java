package org.nccl4j.api.observe;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.observe.flight.RankReport;
import org.nccl4j.api.observe.flight.RankReport.Recent;
import org.nccl4j.api.observe.flight.RankReport.Traffic;

/** Slow links of simulated ranks. */
class LinkSpeedsTest {
  private static final long MILLIS = SimulatedRing.MILLIS;
  private static final long BYTES = SimulatedRing.BYTES;
  private static final int RANKS = 12;

  private final SimulatedRing ring = new SimulatedRing(RANKS);

  private LinkSpeeds speeds() {
    return LinkSpeeds.of(ring.reports());
  }

  private List<Integer> slow() {
    return speeds().slow().stream().map(each -> each.speed().rank()).toList();
  }

  /** All links have moved the same bytes: the time with data under way tells them apart. */
  @Test
  void aSlowLinkIsNamed() {
    ring.withSlowLink(3);
    LinkSpeeds speeds = speeds();
    assertEquals(RANKS, speeds.all().size());
    assertEquals(List.of(3), slow());
    LinkSpeeds.Slow slow = speeds.slow().get(0);
    assertEquals(4, slow.speed().link().peer());
    assertEquals(BYTES * 1000.0 / (MILLIS * 0.95), slow.speed().bytesPerSecond(), 1);
    assertEquals(BYTES * 1000.0 / (MILLIS * 0.1), slow.median(), 1);
    assertFalse(slow.isStalled());
    assertEquals(
        List.of(
            "  slow link: rank 3 -> rank 4 (NET/Socket/eth0): 0.53 GB/s, others 5.00 GB/s (median"
                + " of 12), with data under way in 95 % of the last 8.0 s"),
        speeds.text());
  }

  @Test
  void withoutASlowLinkNoneIsNamed() {
    assertEquals(List.of(), slow());
    assertEquals(List.of("  no slow link among 12 over networks"), speeds().text());
  }

  /** A link at its limit all the time is slow only beside faster ones. */
  @Test
  void linksThatAreEquallyBusyAreNotSlow() {
    for (int rank = 0; rank < RANKS; rank++) {
      ring.with(rank, BYTES, MILLIS * (90 + rank % 10) / 100, 0, MILLIS);
    }
    assertEquals(List.of(), slow());
  }

  @Test
  void idleLinksAreNotCompared() {
    for (int rank = 0; rank < RANKS; rank++) {
      ring.with(rank, 1000, 0, 0, 0);
    }
    assertEquals(List.of(), speeds().all());
    assertEquals(List.of(), speeds().text());
    ring.with(5, BYTES, MILLIS, 0, MILLIS);
    assertEquals(1, speeds().all().size());
    assertEquals(List.of(), slow());
  }

  /** Data wait for a rank that does not take them: its program is late, or a link behind it. */
  @Test
  void aRankWithoutRoomMakesNoSlowLink() {
    ring.with(3, BYTES, MILLIS, MILLIS / 2, MILLIS / 10);
    assertEquals(List.of(), slow());
    ring.with(3, 1000, MILLIS, MILLIS, MILLIS / 10);
    assertEquals(List.of(), slow());
  }

  /** It is not what the ranks wait for. */
  @Test
  void aLinkThatIsSeldomAwaitedIsNotSlow() {
    for (int rank = 0; rank < RANKS; rank++) {
      ring.with(rank, BYTES, MILLIS / 100, 0, MILLIS);
    }
    ring.with(3, BYTES, MILLIS / 5, 0, MILLIS);
    assertEquals(List.of(), slow());
  }

  /** Each kind has a median of its own. */
  @Test
  void linksOfTwoKindsAreNotCompared() {
    for (int rank = 0; rank < RANKS; rank += 2) {
      ring.by(rank, "IB/mlx5_" + rank + ":1");
      ring.with(rank, BYTES, MILLIS / 100, 0, MILLIS);
      ring.with(rank + 1, BYTES, MILLIS * 9 / 10, 0, MILLIS);
    }
    assertEquals(List.of(), slow());
    ring.with(4, BYTES, MILLIS / 2, 0, MILLIS);
    assertEquals(List.of(4), slow());
    assertEquals(RANKS / 2, speeds().slow().get(0).links());
    assertTrue(speeds().text().get(0).contains("rank 4 -> rank 5 (NET/IB/mlx5_4:1)"));
  }

  @Test
  void twoLinksAreTooFewToCompare() {
    List<RankReport> two = new SimulatedRing(2).withSlowLink(0).reports();
    assertEquals(2, LinkSpeeds.of(two).all().size());
    assertEquals(List.of(), LinkSpeeds.of(two).slow());
  }

  @Test
  void aStalledLinkIsNamedFirst() {
    ring.withSlowLink(8);
    ring.with(3, 1000, MILLIS, MILLIS * 3 / 4, MILLIS);
    assertEquals(List.of(3, 8), slow());
    assertTrue(speeds().slow().get(0).isStalled());
    assertEquals(
        "  stalled link: rank 3 -> rank 4 (NET/Socket/eth0): 1000 bytes have arrived, with data"
            + " under way in 100 % of the last 8.0 s",
        speeds().text().get(0));
  }

  /** Its receiver has no entry of a link over which nothing has ever come. */
  @Test
  void aLinkThatNeverWorkedIsStalled() {
    ring.with(3, 0, MILLIS, MILLIS, 0);
    assertEquals(List.of(3), slow());
  }

  @Test
  void aLinkToARankThatIsSilentIsLeftOut() {
    ring.withSlowLink(3);
    List<RankReport> reports = new ArrayList<>(ring.reports());
    reports.remove(4);
    assertEquals(List.of(), LinkSpeeds.of(reports).slow());
    assertEquals(RANKS - 2, LinkSpeeds.of(reports).all().size());
  }

  /** Ranks that exchange equal data with all others, of which each records the first. */
  private static List<RankReport> allToAll(int nRanks) {
    Recent recent = new Recent(MILLIS, BYTES, MILLIS * 9 / 10, 0, BYTES, MILLIS * 9 / 10);
    List<RankReport> reports = new ArrayList<>();
    for (int rank = 0; rank < nRanks; rank++) {
      List<Traffic> traffic = new ArrayList<>();
      for (int peer = 0; peer < nRanks && traffic.size() < RankReport.MOST_LINKS; peer++) {
        if (peer != rank) {
          traffic.add(new Traffic(peer, "NET", SimulatedRing.VIA, BYTES, BYTES, MILLIS, 0, recent));
        }
      }
      if (nRanks - 1 > RankReport.MOST_LINKS) {
        traffic.add(new Traffic(-1, "several", BYTES));
      }
      reports.add(SimulatedRing.report(rank, nRanks, traffic));
    }
    return reports;
  }

  /** Nobody knows if the receiver of such a link waited for it. */
  @Test
  void aLinkThatItsReceiverHasNotRecordedIsLeftOut() {
    int recorded = RankReport.MOST_LINKS + 1;
    int both = recorded * (recorded - 1);
    for (int nRanks : List.of(recorded, 48, 64)) {
      LinkSpeeds speeds = LinkSpeeds.of(allToAll(nRanks));
      assertEquals(List.of(), speeds.slow(), nRanks + " ranks");
      assertEquals(both, speeds.all().size(), nRanks + " ranks");
      assertEquals((nRanks - recorded) * RankReport.MOST_LINKS, speeds.unrecorded());
      assertTrue(speeds.all().stream().allMatch(each -> each.share() == 0.9));
    }
    assertEquals(
        List.of(
            "  no slow link among 380 over networks",
            "  836 more links over networks are not compared: their receivers have recorded others"
                + " (each rank records its first 19)"),
        LinkSpeeds.of(allToAll(64)).text());
  }

  /** Its receiver may have no entry left for it. */
  @Test
  void aLinkWithoutAnEntryOfAFullReceiverIsNotStalled() {
    ring.with(3, 0, MILLIS, MILLIS, 0);
    List<RankReport> reports = new ArrayList<>(ring.reports());
    List<Traffic> traffic = new ArrayList<>(reports.get(4).links().traffic());
    traffic.add(new Traffic(-1, "several", BYTES));
    reports.set(4, SimulatedRing.report(4, RANKS, traffic));
    assertEquals(List.of(), LinkSpeeds.of(reports).slow());
    traffic.set(traffic.size() - 1, new Traffic(-1, "NVLS", BYTES));
    reports.set(4, SimulatedRing.report(4, RANKS, traffic));
    assertEquals(1, LinkSpeeds.of(reports).slow().size());
  }
}
