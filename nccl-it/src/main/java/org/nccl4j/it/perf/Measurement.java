package org.nccl4j.it.perf;

import java.io.PrintWriter;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;
import org.nccl4j.it.perf.peer.MpiPeer;
import org.nccl4j.it.perf.peer.Peer;
import org.nccl4j.it.perf.rank.Answer;
import org.nccl4j.it.perf.rank.Order;
import org.nccl4j.it.perf.rank.ProcessRanks;
import org.nccl4j.it.perf.rank.Ranks;
import org.nccl4j.it.perf.rank.ThreadRanks;
import org.nccl4j.it.perf.report.Machine;
import org.nccl4j.it.perf.report.Result;
import org.nccl4j.it.perf.report.Summary;
import org.nccl4j.it.perf.workload.Workload;

/** One run of {@code perf}: starts the ranks, has them join, sweeps, and sums up. */
final class Measurement {
  private static final Duration JOIN_PATIENCE = Duration.ofSeconds(90);

  private final PerfSettings settings;
  private final String version;
  private final Machine machine;
  private final PrintWriter out;
  private final PrintWriter err;

  Measurement(
      PerfSettings settings, String version, Machine machine, PrintWriter out, PrintWriter err) {
    this.settings = settings;
    this.version = version;
    this.machine = machine;
    this.out = out;
    this.err = err;
  }

  /** Measures everything. */
  List<Result> run() {
    long bytes = largestBuffer();
    try (Ranks ranks = start(bytes);
        Peer peer =
            settings.outputs().compareMpi()
                ? MpiPeer.start(ranks.count(), bytes, settings.ranks().placement())
                : null) {
      List<Answer.Joined> joined = join(ranks);
      Heading heading = new Heading(settings, version, machine, out);
      CellTimer timer = new CellTimer(ranks, settings.how(), settings.ranks().deadlineSeconds());
      String transport = String.join(",", new TreeSet<>(joined.get(0).transports().values()));
      List<Result> results = new ArrayList<>();
      for (Workload workload : settings.what().workloads()) {
        heading.print(workload, joined);
        List<Result> part = new Sweep(settings, timer, peer, transport, out).run(workload);
        new Summary(part).print(out);
        out.printf("#%n# Collective test concluded: %s%n", workload.label());
        out.flush();
        results.addAll(part);
      }
      if (peer != null && settings.what().workloads().size() > 1) {
        out.println("# All collectives together:");
        new Summary(results).print(out);
        out.flush();
      }
      return results;
    }
  }

  private Ranks start(long bytes) {
    int count = settings.ranks().count();
    return settings.ranks().processes()
        ? ProcessRanks.start(count, settings.ranks().placement(), bytes, err)
        : ThreadRanks.start(count, bytes);
  }

  private List<Answer.Joined> join(Ranks ranks) {
    PerfSettings.Who who = settings.ranks();
    String id =
        who.processes()
            ? ((Answer.Text) ranks.one(0, new Order.CreateId(), JOIN_PATIENCE)).text()
            : "";
    Order join =
        new Order.Join(id, who.settings(), who.transports(), who.deadlineSeconds(), who.bound());
    return ranks.all(join, JOIN_PATIENCE).stream().map(Answer.Joined.class::cast).toList();
  }

  private long largestBuffer() {
    return Math.max(settings.what().sizes().max(), 8L * settings.ranks().count());
  }
}
