package org.nccl4j.api.plan;

import java.util.List;
import java.util.Set;
import org.nccl4j.device.kernel.Tree;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;

/**
 * The data that a rank sends to each other rank in an operation, by its algorithm and the rank's
 * places in rings and trees. All rings and trees count alike, as with large data. Data that a rank
 * reads from another's memory count as sent by that one. Immutable.
 */
public final class RankTraffic {
  private final int rank;
  private final int nRanks;
  private final List<int[]> rings;
  private final List<Tree> trees;
  private final Set<Integer> machine;

  /**
   * A rank.
   *
   * @param rings all ranks in ring order, a list for each channel
   * @param trees this rank's places, of which each takes an equal part of the data
   * @param machine ranks of this rank's machine, itself included
   */
  public RankTraffic(
      int rank, int nRanks, List<int[]> rings, List<Tree> trees, Set<Integer> machine) {
    this.rank = rank;
    this.nRanks = nRanks;
    this.rings = List.copyOf(rings);
    this.trees = List.copyOf(trees);
    this.machine = Set.copyOf(machine);
  }

  /**
   * Bytes of an operation.
   *
   * @param toRank by the rank that they are sent to
   * @param toSwitch sent to an NVSwitch that combines or spreads them
   * @param fromSwitch received from it
   */
  public record Bytes(double[] toRank, double toSwitch, double fromSwitch) {}

  /**
   * The bytes that this rank sends in an operation.
   *
   * @param root of the operation; the other rank of a send or a put; 0 for the part of an exchange
   *     with experts that sends
   * @param whole bytes of the larger buffer, as {@link Operation#wholes} has it; of an exchange
   *     with experts those to all ranks together, of a ragged exchange the most to each
   */
  public Bytes of(Operation operation, Algorithm algorithm, int root, double whole) {
    double[] to = new double[nRanks];
    if (algorithm.isNvls() || algorithm.isMulticast()) {
      return bySwitch(operation, algorithm, whole, to);
    }
    switch (algorithm) {
      case RING -> ring(operation, root, whole, to);
      case TREE -> tree(operation, root, whole, to);
      case RAILS -> machine.forEach(peer -> to[peer] = whole / machine.size());
      default -> straight(operation, algorithm, root, whole, to);
    }
    to[rank] = 0;
    return new Bytes(to, 0, 0);
  }

  /**
   * Heads load all ranks' data through the switch, and store results to all. By lines, each rank
   * stores its data to all, which combine them.
   */
  private Bytes bySwitch(Operation operation, Algorithm algorithm, double whole, double[] to) {
    boolean sums = operation == Operation.ALL_REDUCE;
    if (algorithm.isLines()) {
      return sums ? new Bytes(to, whole, nRanks * whole) : new Bytes(to, whole / nRanks, whole);
    }
    double part = whole / (sums ? machine.size() : nRanks);
    boolean loads = operation.reduces();
    boolean stores = sums || !loads;
    return new Bytes(
        to, (loads ? whole : 0) + (stores ? part : 0), (loads ? part : 0) + (stores ? whole : 0));
  }

  private void ring(Operation operation, int root, double whole, double[] to) {
    for (int[] ring : rings) {
      int at = 0;
      while (ring[at] != rank) {
        at++;
      }
      int next = ring[(at + 1) % ring.length];
      double times =
          switch (operation) {
            case BROADCAST -> next == root ? 0 : 1;
            case REDUCE -> rank == root ? 0 : 1;
            default -> operation.busFactor(nRanks);
          };
      to[next] += times * whole / rings.size();
    }
  }

  /** Sums go up, and results down. */
  private void tree(Operation operation, int root, double whole, double[] to) {
    for (Tree tree : trees) {
      Tree place = operation.isRooted() ? tree.from(rank, root) : tree;
      double part = whole / trees.size();
      if (place.up() >= 0 && operation.reduces()) {
        to[place.up()] += part;
      }
      if (operation != Operation.REDUCE) {
        place.down().forEach(child -> to[child] += part);
      }
    }
  }

  /** To each rank what it needs of this one. */
  private void straight(
      Operation operation, Algorithm algorithm, int root, double whole, double[] to) {
    switch (operation) {
      case ALL_REDUCE -> {
        Algorithm way = algorithm.isBetweenWindows() ? algorithm.counterpart() : algorithm;
        all(way.sent(operation, nRanks) * whole / (nRanks - 1), to);
      }
      case ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL -> all(whole / nRanks, to);
      case BROADCAST -> all(rank == root ? whole : 0, to);
      case SCATTER -> all(rank == root ? whole / nRanks : 0, to);
      case REDUCE, SEND, PUT_SIGNAL -> to[root] += whole;
      case DISPATCH, COMBINE -> all(root == 0 ? whole / nRanks : 0, to);
      case RAGGED_ALL_TO_ALL, RAGGED_ALL_GATHER -> all(whole, to);
      case RAGGED_REDUCE_SCATTER -> all(root == 0 ? whole : 0, to);
      case GATHER -> to[root] += whole / nRanks;
      default -> {
        // The sizes of others are not known.
      }
    }
  }

  private void all(double bytes, double[] to) {
    for (int peer = 0; peer < nRanks; peer++) {
      to[peer] += bytes;
    }
  }
}
