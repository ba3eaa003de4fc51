package org.nccl4j.it.perf;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.ToDoubleFunction;
import java.util.function.ToLongFunction;
import org.nccl4j.it.perf.peer.NcclPeer;
import org.nccl4j.it.perf.peer.Peer;
import org.nccl4j.it.perf.rank.Answer;
import org.nccl4j.it.perf.rank.Library;
import org.nccl4j.it.perf.rank.Order;
import org.nccl4j.it.perf.rank.Ranks;
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
    List<Answer.Costs> all =
        ranks.all(new Order.Costs(library, ids), PATIENCE).stream()
            .map(Answer.Costs.class::cast)
            .toList();
    return new Costs(
        name,
        most(all, Answer.Costs::firstMillis),
        most(all, Answer.Costs::laterMillis),
        most(all, Answer.Costs::closeMillis),
        mostBytes(all, Answer.Costs::createdBytes),
        mostBytes(all, Answer.Costs::usedBytes),
        most(all, Answer.Costs::callMicros));
  }

  /** Ranks of one process need no id of ours, only one that is not used twice. */
  private String id(Library library, String otherwise) {
    return library == Library.OURS && !processes
        ? otherwise
        : ((Answer.Text) ranks.one(0, new Order.CreateId(library), PATIENCE)).text();
  }

  private static double most(List<Answer.Costs> all, ToDoubleFunction<Answer.Costs> what) {
    return all.stream().mapToDouble(what).max().orElse(0);
  }

  private static long mostBytes(List<Answer.Costs> all, ToLongFunction<Answer.Costs> what) {
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
    Answer first = ranks.all(new Order.JoinLibnccl(library, id), PATIENCE).get(0);
    return ((Answer.Text) first).text();
  }
}
