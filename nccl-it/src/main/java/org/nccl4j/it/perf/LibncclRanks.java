package org.nccl4j.it.perf;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.ToDoubleFunction;
import java.util.function.ToLongFunction;
import org.nccl4j.it.perf.peer.NcclPeer;
import org.nccl4j.it.perf.peer.Peer;
import org.nccl4j.it.perf.rank.Command;
import org.nccl4j.it.perf.rank.Library;
import org.nccl4j.it.perf.rank.Ranks;
import org.nccl4j.it.perf.rank.Reply;
import org.nccl4j.it.perf.report.Costs;

/** Has the ranks make communicators of libnccl, beside ours. Used by one thread. */
final class LibncclRanks {
  private static final Duration PATIENCE = Duration.ofSeconds(90);

  private final Ranks ranks;
  private final boolean processes;

  LibncclRanks(Ranks ranks, boolean processes) {
    this.ranks = ranks;
    this.processes = processes;
  }

  /** Returns the costs of communicators of ours and of libnccl. */
  List<Costs> costs(String ourVersion) {
    List<Costs> costs = new ArrayList<>();
    costs.add(costs(Library.OURS, "nccl4j " + ourVersion));
    costs.add(costs(Library.LIBNCCL, "libnccl"));
    return costs;
  }

  private Costs costs(Library library, String name) {
    List<String> ids = List.of(id(library, "first"), id(library, "later"));
    List<Reply.Costs> all =
        ranks.all(new Command.Costs(library, ids), PATIENCE).stream()
            .map(Reply.Costs.class::cast)
            .toList();
    return new Costs(
        name,
        most(all, Reply.Costs::firstMillis),
        most(all, Reply.Costs::laterMillis),
        most(all, Reply.Costs::closeMillis),
        mostBytes(all, Reply.Costs::createdBytes),
        mostBytes(all, Reply.Costs::usedBytes),
        most(all, Reply.Costs::callMicros));
  }

  /** Ranks of one process need no id of ours, only one that is not used twice. */
  private String id(Library library, String otherwise) {
    return library == Library.OURS && !processes
        ? otherwise
        : ((Reply.Text) ranks.one(0, new Command.CreateId(library), PATIENCE)).text();
  }

  private static double most(List<Reply.Costs> all, ToDoubleFunction<Reply.Costs> what) {
    return all.stream().mapToDouble(what).max().orElse(0);
  }

  private static long mostBytes(List<Reply.Costs> all, ToLongFunction<Reply.Costs> what) {
    return all.stream().mapToLong(what).max().orElse(0);
  }

  /** Makes the communicators that are measured; with windows where libnccl has them. */
  List<Peer> join(CellTimer timer) {
    String version = join(Library.LIBNCCL);
    join(Library.LIBNCCL_WINDOWS);
    List<Peer> peers = new ArrayList<>();
    for (Library library : List.of(Library.LIBNCCL, Library.LIBNCCL_WINDOWS)) {
      peers.add(
          new NcclPeer(
              library,
              version,
              (cell, warmup, iterations, which) ->
                  timer.micros(cell, warmup, iterations, 1000, which)));
    }
    return peers;
  }

  private String join(Library library) {
    String id = id(library, "");
    Reply first = ranks.all(new Command.JoinLibnccl(library, id), PATIENCE).get(0);
    return ((Reply.Text) first).text();
  }
}
