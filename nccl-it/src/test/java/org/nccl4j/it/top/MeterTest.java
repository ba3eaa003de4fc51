package org.nccl4j.it.top;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.observe.flight.RankReport;
import org.nccl4j.api.observe.flight.RankReport.Operation;
import org.nccl4j.api.observe.flight.RankReport.ProcessReport;
import org.nccl4j.api.observe.flight.RankReport.Run;
import org.nccl4j.api.observe.flight.RankReport.Traffic;
import org.nccl4j.it.top.Frame.CommunicatorRates;
import org.nccl4j.it.top.Frame.LinkRates;
import org.nccl4j.it.top.Frame.RankRates;
import org.nccl4j.it.top.Frame.Wait;

/** Rates computed from reports with given numbers. */
class MeterTest {
  private static final long SECOND = 1_000_000_000L;

  private static RankReport report(int rank, long ended, int waitsFor, String state, Run... runs) {
    long launched = waitsFor < 0 ? ended : ended + 1;
    Operation last =
        new Operation(launched, launched, "all_reduce", 0, 250, 1000, "all_reduce of 250 float");
    return new RankReport(
        new ProcessReport("host", 100 + rank, state),
        7,
        "training",
        rank,
        4,
        launched,
        ended,
        ended + 1,
        waitsFor,
        0,
        0,
        false,
        new RankReport.Front(0, 0, 0, 0),
        List.of(last),
        List.of(runs),
        RankReport.Links.NONE,
        "",
        RankReport.Replays.NONE);
  }

  private static RankReport report(int rank, long ended, int waitsFor, Run... runs) {
    return report(rank, ended, waitsFor, "S", runs);
  }

  private static CommunicatorRates only(Frame frame) {
    assertEquals(1, frame.communicators().size());
    return frame.communicators().get(0);
  }

  /** All-reduces count their bytes once, all-gathers for each rank, and both their bus factor. */
  @Test
  void bandwidthsAreThoseOfNcclTests() {
    Meter meter = new Meter(List.of(report(0, 10, -1)), 5 * SECOND);
    Frame frame =
        meter.frame(
            List.of(
                report(
                    0,
                    40,
                    -1,
                    new Run("all_reduce", 1_000_000, 1, 20),
                    new Run("all_gather", 500_000, 21, 40))),
            7 * SECOND,
            0);
    RankRates rank = only(frame).ranks().get(0);
    assertEquals(2, frame.seconds());
    assertEquals(15, rank.operations());
    assertEquals((10 * 1e6 + 20 * 4 * 0.5e6) / 2 / 1e9, rank.gigabytes(), 1e-12);
    assertEquals((10 * 1e6 * 1.5 + 20 * 4 * 0.5e6 * 0.75) / 2 / 1e9, rank.busGigabytes(), 1e-12);
    assertEquals("runs", rank.state());
  }

  @Test
  void runsThatWereOverwrittenCountAsTheOthers() {
    Meter meter = new Meter(List.of(report(0, 0, -1)), 0);
    Frame frame =
        meter.frame(
            List.of(report(0, 1000, -1, new Run("all_reduce", 1_000_000, 901, 1000))), SECOND, 0);
    assertEquals(1.0, only(frame).ranks().get(0).gigabytes(), 1e-12);
  }

  /** A run that goes on over several frames counts in each with its own part. */
  @Test
  void eachFrameBeginsWhereTheLastOneEnded() {
    Run first = new Run("all_reduce", 1_000_000_000, 1, 1);
    Meter meter = new Meter(List.of(report(0, 1, -1, first)), 0);
    Run longer = new Run("all_reduce", 1_000_000_000, 1, 3);
    assertEquals(
        2,
        only(meter.frame(List.of(report(0, 3, -1, longer)), SECOND, 0)).ranks().get(0).gigabytes());
    Run longest = new Run("all_reduce", 1_000_000_000, 1, 4);
    assertEquals(
        1,
        only(meter.frame(List.of(report(0, 4, -1, longest)), 2 * SECOND, 0))
            .ranks()
            .get(0)
            .gigabytes());
  }

  @Test
  void waitsAreSharesOfLooks() {
    Meter meter = new Meter(List.of(report(0, 5, 1), report(1, 5, -1)), 0);
    meter.look(List.of(report(0, 5, 1), report(1, 5, 0)));
    meter.look(List.of(report(0, 6, 1), report(1, 6, -1)));
    meter.look(List.of(report(0, 7, -1), report(1, 7, -1)));
    CommunicatorRates rates =
        only(meter.frame(List.of(report(0, 8, 1), report(1, 8, -1)), SECOND, 0));
    assertEquals(List.of(new Wait(0, 1, 0.75), new Wait(1, 0, 0.25)), rates.waits());
    assertEquals(0.75, rates.ranks().get(0).waiting());
    assertEquals("waits", rates.ranks().get(0).state());
    assertEquals(1, rates.ranks().get(0).waitsFor());
  }

  /** Counts go on from frame to frame; those of operations begin with the communicator. */
  @Test
  void countsAreSumsOverTheFrames() {
    Meter meter = new Meter(List.of(report(0, 10, 1)), 0);
    Run run = new Run("all_reduce", 1000, 1, 40);
    Frame.Counts first =
        only(meter.frame(List.of(report(0, 30, 1, run)), SECOND, 0)).ranks().get(0).counts();
    assertEquals(new Frame.Counts(30, 20 * 1000, 30 * 1000, 1), first);
    meter.look(List.of(report(0, 35, -1, run)));
    Frame.Counts second =
        only(meter.frame(List.of(report(0, 40, 1, run)), 3 * SECOND, 0)).ranks().get(0).counts();
    assertEquals(new Frame.Counts(40, 30 * 1000, 45 * 1000, 1 + 2 * 0.5), second);
  }

  private static RankReport sent(RankReport of, Traffic... traffic) {
    return new RankReport(
        of.process(),
        of.communicator(),
        of.name(),
        of.rank(),
        of.nRanks(),
        of.launched(),
        of.ended(),
        of.upTo(),
        of.waitsFor(),
        of.stillMillis(),
        of.observedMillis(),
        of.failed(),
        of.front(),
        of.operations(),
        of.runs(),
        new RankReport.Links(List.of(traffic), List.of()),
        of.device(),
        RankReport.Replays.NONE);
  }

  private static RankReport replayed(RankReport of, long operations) {
    return new RankReport(
        of.process(),
        of.communicator(),
        of.name(),
        of.rank(),
        of.nRanks(),
        of.launched(),
        of.ended(),
        of.upTo(),
        of.waitsFor(),
        of.stillMillis(),
        of.observedMillis(),
        of.failed(),
        of.front(),
        of.operations(),
        of.runs(),
        of.links(),
        of.device(),
        new RankReport.Replays(operations, 1000 * operations, 1500 * operations));
  }

  /** A job that runs by graphs alone. */
  @Test
  void operationsOfGraphsCount() {
    RankReport report = report(0, 10, -1);
    Meter meter = new Meter(List.of(replayed(report, 100)), 0);
    Frame frame = meter.frame(List.of(replayed(report, 300)), 2 * SECOND, 0);
    RankRates rank = only(frame).ranks().get(0);
    assertEquals(100, rank.operations());
    assertEquals(1e-4, rank.gigabytes(), 1e-12);
    assertEquals(1.5e-4, rank.busGigabytes(), 1e-12);
    assertEquals("runs", rank.state());
    assertEquals(new Frame.Counts(310, 200_000, 300_000, 0), rank.counts());
  }

  /** One link has sent before the frame, the other only in it. */
  @Test
  void linksHaveTheRateOfTheFrameAndAllTheirBytes() {
    RankReport report = report(0, 5, -1);
    long giga = 1_000_000_000;
    Meter meter = new Meter(List.of(sent(report, new Traffic(1, "SHM", 5 * giga))), 0);
    Frame frame =
        meter.frame(
            List.of(sent(report, new Traffic(1, "SHM", 7 * giga), new Traffic(3, "NET", giga))),
            2 * SECOND,
            0);
    assertEquals(
        List.of(
            new LinkRates(1, "SHM", "", 7 * giga, 1, 0), new LinkRates(3, "NET", "", giga, 0.5, 0)),
        only(frame).ranks().get(0).links());
  }

  @Test
  void aRankThatComesOrGoesIsCountedWhileItIsThere() {
    Meter meter = new Meter(List.of(report(0, 5, -1)), 0);
    Frame frame = meter.frame(List.of(report(1, 9, -1)), SECOND, 0);
    assertEquals(1, only(frame).ranks().size());
    RankRates rank = only(frame).ranks().get(0);
    assertEquals(1, rank.rank());
    assertEquals(0, rank.operations());
    assertEquals("idle", rank.state());
  }

  @Test
  void aStoppedProcessIsNamed() {
    Meter meter = new Meter(List.of(report(0, 5, 1, "T")), 0);
    assertEquals(
        "stopped",
        only(meter.frame(List.of(report(0, 5, 1, "T")), SECOND, 0)).ranks().get(0).state());
  }
}
