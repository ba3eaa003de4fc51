package org.nccl4j.api.bootstrap;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.nccl4j.device.NcclException.Code;

/** Which ranks have come to the root, and whether they fit together. Knows no socket, no clock. */
final class Formation {
  private static final int NAMED_AT_MOST = 32;

  private final String version;
  private final Map<Integer, Hello> came = new TreeMap<>();
  private int nRanks;

  Formation(String version) {
    this.version = version;
  }

  /** Takes a rank in, or says why the ranks do not fit together. */
  Optional<Failure> add(Hello hello) {
    Optional<Failure> objection = objection(hello);
    if (nRanks == 0) {
      nRanks = Math.max(1, hello.nRanks());
    }
    if (objection.isEmpty()) {
      came.put(hello.rank(), hello);
    }
    return objection;
  }

  boolean complete() {
    return nRanks > 0 && came.size() == nRanks;
  }

  int nRanks() {
    return nRanks;
  }

  Hello rank(int rank) {
    return came.get(Math.floorMod(rank, nRanks));
  }

  /** What to say when the time is over. */
  Failure late(String deadline, String refusals) {
    List<Integer> missing = new ArrayList<>();
    for (int rank = 0; rank < nRanks; rank++) {
      if (!came.containsKey(rank)) {
        missing.add(rank);
      }
    }
    String problem =
        "%s of %d did not come to the bootstrap root within %s; %s came%s"
            .formatted(
                names(missing), nRanks, deadline, names(List.copyOf(came.keySet())), refusals);
    return new Failure(
        Code.TIMEOUT,
        problem,
        "look at why these did not start or cannot reach the root, or allow more time with"
            + " NCCL4J_INIT_TIMEOUT",
        "");
  }

  private Optional<Failure> objection(Hello hello) {
    if (!hello.who().version().equals(version)) {
      return wrong(
          "%s runs nccl4j %s, the root %s".formatted(hello.text(), hello.who().version(), version),
          "give all ranks the same nccl4j");
    }
    if (nRanks != 0 && hello.nRanks() != nRanks) {
      return wrong(
          "%s was started as one of %d ranks, %s as one of %d"
              .formatted(
                  hello.text(), hello.nRanks(), came.values().iterator().next().text(), nRanks),
          "pass the same number of ranks everywhere");
    }
    if (hello.rank() < 0 || hello.rank() >= hello.nRanks()) {
      return wrong(
          "%s is not one of %d ranks".formatted(hello.text(), hello.nRanks()),
          "number the ranks from 0");
    }
    Hello twin = came.get(hello.rank());
    if (twin != null) {
      return wrong(
          "rank %d came twice: %s, and %s"
              .formatted(hello.rank(), twin.who().text(), hello.who().text()),
          "give every rank another number");
    }
    return Optional.empty();
  }

  private static Optional<Failure> wrong(String problem, String remedy) {
    return Optional.of(new Failure(Code.INVALID_USAGE, problem, remedy, ""));
  }

  private static String names(List<Integer> ranks) {
    String numbers =
        String.join(", ", ranks.stream().limit(NAMED_AT_MOST).map(String::valueOf).toList());
    String more =
        ranks.size() > NAMED_AT_MOST ? " and " + (ranks.size() - NAMED_AT_MOST) + " more" : "";
    return (ranks.size() == 1 ? "rank " : "ranks ") + numbers + more;
  }
}
