package org.nccl4j.api.bootstrap.root;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.nccl4j.device.ErrorId;

/**
 * The ranks that have joined at a root; checks that they are consistent. Uses neither sockets nor
 * clocks.
 */
final class MembershipTable {
  private static final int NAMED_AT_MOST = 32;

  private final String version;
  private final Map<Integer, JoinMessage> came = new TreeMap<>();
  private JoinMessage first;
  private int mostClaimed;

  MembershipTable(String version) {
    this.version = version;
  }

  /** Takes a rank in, or says why the ranks do not fit together. */
  Optional<FailureMessage> add(JoinMessage hello) {
    Optional<FailureMessage> objection = objection(hello);
    if (first == null) {
      first = hello;
    }
    hear(hello);
    if (objection.isEmpty()) {
      came.put(hello.rank(), hello);
    }
    return objection;
  }

  /** Takes note of how many a rank says there are that comes when all is lost. */
  void hear(JoinMessage hello) {
    mostClaimed = Math.max(mostClaimed, claimed(hello));
  }

  /** Returns the number of ranks that would come to this root, as one rank claims. */
  private static int claimed(JoinMessage hello) {
    boolean one = hello.place() == null || hello.place().nRoots() <= 1;
    boolean sane = !one && hello.place().nRoots() <= hello.nRanks();
    return sane
        ? new RootPartition(hello.nRanks(), hello.place().nRoots()).expected(hello.place().root())
        : hello.nRanks();
  }

  /** True if any rank has come. */
  boolean begun() {
    return first != null;
  }

  boolean complete() {
    return !came.isEmpty() && came.size() == roots().expected(first.place().root());
  }

  /** Returns the largest number of ranks that are claimed to come here, where they disagree. */
  int mostClaimed() {
    return mostClaimed;
  }

  /** Returns the reply to a rank once all ranks have come. */
  JoinReply welcome(JoinMessage hello, String rootRanks) {
    int nRanks = first.nRanks();
    int root = first.place().root();
    boolean guest = roots().of(hello.rank()) != root;
    boolean leads = roots().hostOf(hello.rank()) >= 0;
    JoinMessage next = guest ? null : came.get((hello.rank() + 1) % nRanks);
    JoinMessage previous = came.get(Math.floorMod(hello.rank() - 1, nRanks));
    return new JoinReply(
        guest ? null : next.place().ring(),
        guest ? "" : next.text(),
        leads && !guest ? "" : previous.text(),
        rootRanks);
  }

  private RootPartition roots() {
    return new RootPartition(first.nRanks(), first.place().nRoots());
  }

  /** Returns the message for a deadline that has passed. */
  FailureMessage late(String deadline, String refusals) {
    String problem =
        "%s of %d did not join at the bootstrap root%s within %s; %s joined%s"
            .formatted(
                missing(),
                first.nRanks(),
                roots().count() == 1
                    ? ""
                    : " %d of %d".formatted(first.place().root(), roots().count()),
                deadline,
                names(List.copyOf(came.keySet()), came.size()),
                refusals);
    return new FailureMessage(
        ErrorId.RANKS_MISSING,
        problem,
        "check why these did not start or cannot reach the root, and that all ranks have the same"
            + " unique id or NCCL_COMM_ID, the same NCCL4J_COMM_SECRET, and TLS"
            + " (NCCL4J_TLS_CERT) or none; or allow more time with NCCL4J_INIT_TIMEOUT",
        "");
  }

  /** Returns the ranks that are awaited, while there is time. */
  String awaited() {
    return "%s of %d; %s joined"
        .formatted(missing(), first.nRanks(), names(List.copyOf(came.keySet()), came.size()));
  }

  /** The ranks that have not come, as far as they are named. */
  private String missing() {
    int root = first.place().root();
    List<Integer> missing = new ArrayList<>();
    for (int rank = 0; rank < first.nRanks() && missing.size() < NAMED_AT_MOST; rank++) {
      if (roots().comes(rank, root) && !came.containsKey(rank)) {
        missing.add(rank);
      }
    }
    return names(missing, roots().expected(root) - came.size());
  }

  private Optional<FailureMessage> objection(JoinMessage hello) {
    if (!hello.who().version().equals(version)) {
      return wrong(
          "%s runs nccl4j %s, the root %s".formatted(hello.text(), hello.who().version(), version),
          "run the same version of nccl4j on all ranks");
    }
    if (first != null && hello.nRanks() != first.nRanks()) {
      return wrong(
          "%s was started with %d ranks, %s with %d"
              .formatted(hello.text(), hello.nRanks(), first.text(), first.nRanks()),
          "pass the same number of ranks on all ranks");
    }
    if (hello.rank() < 0 || hello.rank() >= hello.nRanks()) {
      return wrong(
          "%s is not one of %d ranks".formatted(hello.text(), hello.nRanks()),
          "number the ranks from 0");
    }
    JoinMessage twin = came.get(hello.rank());
    if (twin != null) {
      return wrong(
          "rank %d joined twice: %s, and %s"
              .formatted(hello.rank(), twin.who().text(), hello.who().text()),
          "give every rank its own number");
    }
    return wrongIds(hello);
  }

  private Optional<FailureMessage> wrongIds(JoinMessage hello) {
    JoinMessage.Place place = hello.place();
    String remedy = "pass the same unique ids in the same order to all ranks";
    if (first != null && place.nRoots() != first.place().nRoots()) {
      return wrong(
          "%s was given %d unique ids, %s %d"
              .formatted(hello.text(), place.nRoots(), first.text(), first.place().nRoots()),
          remedy);
    }
    boolean sane =
        place.nRoots() >= 1
            && place.nRoots() <= hello.nRanks()
            && place.root() >= 0
            && place.root() < place.nRoots();
    if (!sane
        || (first != null && place.root() != first.place().root())
        || !new RootPartition(hello.nRanks(), place.nRoots()).comes(hello.rank(), place.root())) {
      return wrong(
          "%s joins at this root with unique id %d of %d%s"
              .formatted(
                  hello.text(),
                  place.root(),
                  place.nRoots(),
                  first == null ? "" : ", " + first.text() + " with " + first.place().root()),
          remedy);
    }
    return Optional.empty();
  }

  private static Optional<FailureMessage> wrong(String problem, String remedy) {
    return Optional.of(new FailureMessage(ErrorId.RANKS_DIFFER, problem, remedy, ""));
  }

  private static String names(List<Integer> ranks, int count) {
    String numbers =
        String.join(", ", ranks.stream().limit(NAMED_AT_MOST).map(String::valueOf).toList());
    String more = count > NAMED_AT_MOST ? " and " + (count - NAMED_AT_MOST) + " more" : "";
    return (count == 1 ? "rank " : "ranks ") + numbers + more;
  }
}
