package org.nccl4j.it.top;

import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import org.nccl4j.api.observe.LinkSpeeds;
import org.nccl4j.api.observe.flight.RankReport;
import org.nccl4j.api.observe.flight.RankReport.Failover;
import org.nccl4j.api.observe.flight.RankReport.ProcessReport;
import org.nccl4j.api.observe.flight.RankReport.Recent;
import org.nccl4j.api.observe.flight.RankReport.Traffic;
import org.nccl4j.api.spi.Failovers;
import org.nccl4j.it.top.Frame.CommunicatorRates;
import org.nccl4j.it.top.Frame.Counts;
import org.nccl4j.it.top.Frame.LinkRates;
import org.nccl4j.it.top.Frame.RankRates;
import org.nccl4j.it.top.Frame.Wait;
import org.nccl4j.it.topo.HostMachine;
import org.nccl4j.topo.path.Routes;

/** Frames for tests of what is drawn of them. */
final class FrameSamples {
  /** A name that is no HTML. */
  static final String TRICK = "<img src=x onerror=document.title='no'>";

  static final LinkSpeeds NO_SPEEDS = new LinkSpeeds(List.of(), List.of(), 0);

  /** No machine is known. */
  static final TrafficMap UNKNOWN = new TrafficMap(host -> Optional.empty());

  private FrameSamples() {}

  /** A machine of the topology's tests. */
  static Routes machine(String name) {
    String folder = "nccl-topo/src/test/resources/org/nccl4j/topo/machines";
    return HostMachine.of(Path.of("..", folder, name + ".xml"));
  }

  static RankRates rank(int rank, String host, String device, LinkRates... links) {
    return rank(rank, host, device, "runs", List.of(), links);
  }

  private static RankRates rank(
      int rank,
      String host,
      String device,
      String state,
      List<Failover> failovers,
      LinkRates... links) {
    return new RankRates(
        rank,
        new ProcessReport(host, 41 + rank, "S"),
        new Counts(5, 1, 2, 0.5),
        5,
        1,
        2,
        0.5,
        -1,
        "all_reduce",
        state,
        List.of(links),
        failovers,
        device);
  }

  static Frame frame(long millis, RankRates... ranks) {
    return frame(millis, "training", NO_SPEEDS, List.of(), ranks);
  }

  static Frame frame(
      long millis, String name, LinkSpeeds speeds, List<Wait> waits, RankRates... ranks) {
    return new Frame(
        millis,
        1,
        List.of(new CommunicatorRates(name, 7, ranks.length, List.of(ranks), waits, speeds)),
        List.of());
  }

  /** Two processes of one host, of which the first waits, with a slow link and replaced paths. */
  static Frame pair() {
    Recent recent = new Recent(8000, 3_200_000_000L, 7680, 0, 0, 0);
    Traffic link = new Traffic(1, "NET", "Socket/eth0", 5, 0, 0, 0, recent);
    LinkSpeeds.Speed speed = new LinkSpeeds.Speed(0, link, 4.2e8, 0.96);
    return frame(
        1000,
        TRICK,
        new LinkSpeeds(List.of(speed), List.of(new LinkSpeeds.Slow(speed, 2.3e9, 12)), 0),
        List.of(new Wait(0, 1, 0.9)),
        half(0, "waits"),
        half(1, "runs"));
  }

  private static RankRates half(int rank, String state) {
    return rank(
        rank,
        "h",
        RankReport.HOST,
        state,
        List.of(new Failover(1 - rank, new Failovers(2, 900, 64, "eth0"))),
        new LinkRates(1 - rank, "SHM", "", 100, 4 - rank, 0),
        new LinkRates(-1, "several", "", 7, 1, 0));
  }
}
