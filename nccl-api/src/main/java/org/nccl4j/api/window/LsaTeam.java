package org.nccl4j.api.window;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import java.util.stream.IntStream;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.device.Device;
import org.nccl4j.device.cuda.CudaDevice;

/**
 * The ranks that can load from and store to each other's memory: those of one machine, or of one
 * clique of multi-node NVLink, as far as they reach each other. All teams of a communicator have
 * the same size, the largest that divides every machine's run of ranks, so that all ranks have the
 * same layout of their flat ranges. On GPUs the size is limited by the kernels' flags.
 *
 * @param first the lowest rank
 * @param size number of ranks, in order of rank
 * @param place of this rank among them
 */
public record LsaTeam(int first, int size, int place) {
  /** The team of a rank, where all of a machine or clique reach each other. */
  public static LsaTeam of(List<PeerInfo> peers, int rank) {
    return of(peers, UnreachedPairs.NONE, rank);
  }

  /** The team of a rank; two of a team reach each other. */
  public static LsaTeam of(List<PeerInfo> peers, UnreachedPairs unreached, int rank) {
    int size = size(peers, runs(peers, unreached));
    return new LsaTeam(rank - rank % size, size, rank % size);
  }

  private static int size(List<PeerInfo> peers, List<Integer> runs) {
    int size = runs.stream().reduce(0, LsaTeam::gcd);
    return part(size, most(peers));
  }

  /** Numbers of consecutive ranks that reach each other's memory. */
  private static List<Integer> runs(List<PeerInfo> peers, UnreachedPairs unreached) {
    List<Integer> runs = new ArrayList<>();
    int run = 1;
    for (int r = 1; r < peers.size(); r++) {
      if (reach(peers.get(r - 1), peers.get(r)) && reachesAll(unreached, r, r - run)) {
        run++;
      } else {
        runs.add(run);
        run = 1;
      }
    }
    runs.add(run);
    return runs;
  }

  /** True if a rank and each from another one on to it reach each other. */
  private static boolean reachesAll(UnreachedPairs unreached, int rank, int from) {
    return unreached.areNone()
        || IntStream.range(from, rank).noneMatch(other -> unreached.has(rank, other));
  }

  /** The most ranks that kernels can work with. */
  private static int most(List<PeerInfo> peers) {
    return peers.get(0).deviceKind() == Device.Kind.CUDA
        ? CudaDevice.TEAM_RANKS
        : Integer.MAX_VALUE;
  }

  /** The largest equal part that kernels can work with: of 72 ranks 24. */
  private static int part(int size, int most) {
    int part = Math.min(size, most);
    while (size % part != 0) {
      part--;
    }
    return part;
  }

  /**
   * Says why teams are smaller than those of the largest machine or clique alone, or as even parts
   * of it as can be; empty where they are not.
   */
  static Optional<String> smallness(List<PeerInfo> peers, UnreachedPairs unreached) {
    List<Integer> runs = runs(peers, unreached);
    int size = size(peers, runs);
    int largest = Collections.max(runs);
    int fewest = Collections.min(runs);
    int most = most(peers);
    int parts = (int) Math.ceil((double) largest / most);
    if (size >= largest / parts) {
      return Optional.empty();
    }
    String limit = most == Integer.MAX_VALUE ? "" : ", at most " + most;
    String teams = "have teams of %d: all teams have as many ranks".formatted(size) + limit;
    String places =
        unreached.areNone()
            ? "machines or cliques have"
            : "GPUs of a machine or clique that reach each other are";
    return Optional.of(
        fewest < largest
            ? "%s, and %s %d to %d".formatted(teams, places, fewest, largest)
            : "%s, and %d cannot be divided into larger ones; with %d ranks on each, teams would have %d"
                .formatted(teams, largest, largest / parts * parts, largest / parts));
  }

  private static boolean reach(PeerInfo a, PeerInfo b) {
    return a.node().equals(b.node()) && a.deviceKind() == b.deviceKind();
  }

  /** True if its ranks need fabric handles: they cannot all send each other descriptors. */
  boolean isApart(List<PeerInfo> peers) {
    PeerInfo self = peers.get(first);
    return ranks().stream().map(peers::get).anyMatch(peer -> !self.sharesHost(peer));
  }

  private static int gcd(int a, int b) {
    return a == 0 ? b : gcd(b % a, a);
  }

  /** True if a rank is one of them. */
  public boolean has(int rank) {
    return rank >= first && rank < first + size;
  }

  /** Their ranks. */
  public List<Integer> ranks() {
    return new ArrayList<>(IntStream.range(first, first + size).boxed().toList());
  }
}
