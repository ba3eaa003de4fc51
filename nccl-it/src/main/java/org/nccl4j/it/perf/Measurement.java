package org.nccl4j.it.perf;

import java.io.PrintWriter;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;
import org.nccl4j.it.perf.peer.MpiPeer;
import org.nccl4j.it.perf.peer.Peer;
import org.nccl4j.it.perf.peer.QuantisedPeer;
import org.nccl4j.it.perf.rank.Command;
import org.nccl4j.it.perf.rank.CoreBinding;
import org.nccl4j.it.perf.rank.Library;
import org.nccl4j.it.perf.rank.ProcessRanks;
import org.nccl4j.it.perf.rank.RankSpec;
import org.nccl4j.it.perf.rank.Ranks;
import org.nccl4j.it.perf.rank.Reply;
import org.nccl4j.it.perf.rank.ThreadRanks;
import org.nccl4j.it.perf.report.Costs;
import org.nccl4j.it.perf.report.Machine;
import org.nccl4j.it.perf.report.Result;
import org.nccl4j.it.perf.report.Summary;
import org.nccl4j.it.perf.workload.Workload;

/** One run of {@code perf}: starts the ranks, has them join, sweeps, and sums up. */
final class Measurement {
  private static final Duration JOIN_PATIENCE = Duration.ofSeconds(90);

  /** Allowed for an operation that has not been timed. */
  private static final double SLOW_MICROS = 10_000;

  private final PerfSettings settings;
  private final String version;
  private final Machine machine;
  private final PrintWriter out;
  private final PrintWriter err;
  private final List<Costs> costs = new ArrayList<>();

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
    try (Ranks ranks = start(bytes)) {
      List<Reply.Joined> joined = join(ranks);
      CellTimer timer = new CellTimer(ranks, settings.how(), settings.ranks().deadlineSeconds());
      return switch (settings.outputs().comparison().with()) {
        case NOTHING -> run(joined, timer, List.of());
        case MPI -> {
          try (Peer mpi =
              MpiPeer.start(settings.ranks().count(), bytes, settings.ranks().placement())) {
            yield run(joined, timer, List.of(mpi));
          }
        }
        case QUANTISED -> run(joined, timer, List.of(quantised(ranks, timer)));
        case LIBNCCL -> {
          LibncclRanks libnccl = new LibncclRanks(ranks, settings.ranks().processes());
          if (settings.ranks().drives() == 1) {
            costs.addAll(libnccl.costs(version));
            Costs.print(costs, out);
          }
          yield run(joined, timer, libnccl.join(timer));
        }
      };
    }
  }

  private Peer quantised(Ranks ranks, CellTimer timer) {
    Comparison how = settings.outputs().comparison();
    ranks.all(new Command.Quantise(how.format(), how.block()), JOIN_PATIENCE);
    return new QuantisedPeer(
        "%s:%d".formatted(how.format().label(), how.block()),
        (cell, warmup, iterations, library) ->
            timer.micros(cell, warmup, iterations, SLOW_MICROS, library));
  }

  /** Returns the costs of communicators; none if they were not measured. */
  List<Costs> costs() {
    return List.copyOf(costs);
  }

  private List<Result> run(List<Reply.Joined> joined, CellTimer timer, List<Peer> peers) {
    TableHeader heading = new TableHeader(settings, version, machine, out);
    String transport = String.join(",", new TreeSet<>(joined.get(0).transports().values()));
    List<Result> results = new ArrayList<>();
    for (Workload workload : settings.what().workloads()) {
      heading.print(workload, joined);
      if (out.checkError()) {
        break; // nobody reads the rows
      }
      if (settings.how().overlap()) {
        new OverlapSweep(settings, timer, !peers.isEmpty(), out).run(workload);
        continue;
      }
      List<Result> part = new Sweep(settings, timer, peers, transport, out).run(workload);
      new Summary(part).print(out);
      out.printf("#%n# Collective test concluded: %s%n", workload.label());
      out.flush();
      results.addAll(part);
    }
    if (!results.isEmpty() && !peers.isEmpty() && settings.what().workloads().size() > 1) {
      out.println("# All collectives together:");
      new Summary(results).print(out);
      out.flush();
    }
    return results;
  }

  private Ranks start(long bytes) {
    PerfSettings.Who who = settings.ranks();
    RankSpec spec =
        new RankSpec(
            0,
            who.count(),
            who.drives(),
            bytes,
            who.kind(),
            settings.outputs().comparison().file(),
            who.registration(),
            settings.how().overlap());
    return who.processes()
        ? ProcessRanks.start(spec, who.placement(), err)
        : ThreadRanks.start(spec);
  }

  private List<Reply.Joined> join(Ranks ranks) {
    PerfSettings.Who who = settings.ranks();
    String id =
        who.processes()
            ? ((Reply.Text) ranks.one(0, new Command.CreateId(Library.OURS), JOIN_PATIENCE)).text()
            : "perf";
    Command join =
        new Command.Join(id, who.settings(), who.transports(), who.deadlineSeconds(), binding(who));
    return ranks.all(join, JOIN_PATIENCE).stream().map(Reply.Joined.class::cast).toList();
  }

  private static CoreBinding.Time binding(PerfSettings.Who who) {
    return !who.bound()
        ? CoreBinding.Time.NEVER
        : who.placement().isHere()
            ? CoreBinding.Time.BEFORE_CREATION
            : CoreBinding.Time.AFTER_CREATION;
  }

  private long largestBuffer() {
    return Math.max(settings.what().sizes().max(), 8L * settings.ranks().count());
  }
}
