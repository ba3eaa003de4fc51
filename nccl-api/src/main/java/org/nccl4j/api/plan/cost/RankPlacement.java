package org.nccl4j.api.plan.cost;

import java.util.List;
import java.util.stream.IntStream;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.kernel.HostGrid;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;

/**
 * The distribution of ranks over hosts.
 *
 * @param ranks of each host, ascending; hosts by their lowest rank
 * @param mostRanks of one host
 * @param fewestRanks of one host
 * @param carried whether some connections are carried by a proxy, such as over a network
 * @param channels that every connection of rings, trees and the like has
 * @param pairChannels that every connection has
 * @param lines whether every connection has LL
 * @param network that all ranks use between hosts, such as "Socket"; "" if they differ or have none
 * @param late whether ranks of other hosts are connected when they first need it
 */
public record RankPlacement(
    List<List<Integer>> ranks,
    int mostRanks,
    int fewestRanks,
    boolean carried,
    int channels,
    int pairChannels,
    boolean lines,
    String network,
    boolean late) {
  private static final int FAR_RANKS_FOR_ONE = 8;

  /** The same where only those ranks are connected that send to each other. */
  private static final int LATE_RANKS_FOR_ONE = 512;

  /** With the numbers of a host's ranks counted, as many channels of all pairs; not late. */
  public RankPlacement(
      List<List<Integer>> ranks, boolean carried, int channels, boolean lines, String network) {
    this(
        ranks,
        ranks.stream().mapToInt(List::size).max().orElse(0),
        ranks.stream().mapToInt(List::size).min().orElse(0),
        carried,
        channels,
        channels,
        lines,
        network,
        /* late= */ false);
  }

  /** With as many ranks on each host, numbered host after host. */
  public RankPlacement(int hosts, int ranksAHost, boolean carried, int channels, boolean lines) {
    this(
        IntStream.range(0, hosts)
            .mapToObj(
                host ->
                    IntStream.range(host * ranksAHost, (host + 1) * ranksAHost).boxed().toList())
            .toList(),
        ranksAHost,
        ranksAHost,
        carried,
        channels,
        channels,
        lines,
        /* network= */ "",
        /* late= */ false);
  }

  /** The same with another answer to whether ranks are connected late. */
  public RankPlacement withLate(boolean other) {
    return new RankPlacement(
        ranks, mostRanks, fewestRanks, carried, channels, pairChannels, lines, network, other);
  }

  /** The same with another number of channels of every connection. */
  public RankPlacement withPairChannels(int other) {
    return new RankPlacement(
        ranks, mostRanks, fewestRanks, carried, channels, other, lines, network, late);
  }

  /** Returns the number of channels that all connections of an algorithm have. */
  public int channels(Algorithm algorithm) {
    return algorithm.isStraight() ? pairChannels : channels;
  }

  /** With all channels, and LL where no proxy is. */
  RankPlacement(int hosts, int ranksAHost, boolean carried) {
    this(hosts, ranksAHost, carried, ConnectionLayout.CHANNELS, !carried);
  }

  /** Hosts with ranks. */
  public int hosts() {
    return ranks.size();
  }

  /** True if the ranks are numbered host after host. */
  boolean isInOrder() {
    int[] all = HostGrid.ranks(ranks);
    return IntStream.range(0, all.length).allMatch(at -> all[at] == at);
  }

  /**
   * True if one of several hosts has several ranks, and a network connects the hosts, so that
   * messages for the ranks of a host can travel together.
   */
  public boolean hasRails() {
    return carried && hosts() > 1 && mostRanks > 1;
  }

  /**
   * True if each of several hosts has as many ranks, and more than one: then the ranks with one
   * number on each of the hosts can share what goes between hosts.
   */
  boolean isGrid() {
    return HostGrid.isGrid(ranks);
  }

  /** Says why ranks of several hosts have no hierarchical way of an operation; "" if they have. */
  String lacksGrid(Operation operation) {
    return hosts() == 1 || isGrid() || !Algorithm.HIERARCHICAL.has(operation)
        ? ""
        : "Hierarchical needs as many ranks on each host, and more than one; these hosts have "
            + (fewestRanks == mostRanks ? "one each" : fewestRanks + " to " + mostRanks);
  }

  /** Returns how many times a host's network sends the whole data by the hierarchical way. */
  double sentByHierarchical(Operation operation) {
    return (operation == Operation.ALL_REDUCE ? 2.0 : 1) * (hosts() - 1) / hosts();
  }

  /**
   * The ranks in a table of measured times: their number, or 2x4/Socket for two hosts with four
   * ranks each that sockets connect. "" where a table has no times: hosts with different numbers of
   * ranks, and different networks.
   */
  public String inTables() {
    if (hosts() == 1) {
      return Integer.toString(mostRanks);
    }
    return mostRanks == fewestRanks && !network.isEmpty()
        ? hosts() + "x" + mostRanks + "/" + network
        : "";
  }

  /**
   * Returns the number of ranks for which slots are made. Slots get smaller with this number. A
   * device holds the slots of its host's ranks. Slots of other hosts' ranks lie in host memory, of
   * which there is more.
   *
   * @param nRanks all ranks
   * @param mostRanks of one host
   * @param late whether ranks of other hosts are connected when they first need it
   */
  public static int sharingSlots(int nRanks, int mostRanks, boolean late) {
    int forOne = late ? LATE_RANKS_FOR_ONE : FAR_RANKS_FOR_ONE;
    int far = (nRanks + forOne - 1) / forOne;
    return Math.max(Math.min(2, nRanks), Math.max(mostRanks, far));
  }

  /**
   * Returns the most bytes of a rank's part, at least, that a message of PAT carries on a channel
   * among GPUs of several hosts: 0 if they have no PAT.
   *
   * @param mostRanks of one host
   * @param late whether ranks of other hosts are connected when they first need it
   */
  public static int patChunk(int nRanks, int mostRanks, boolean late) {
    return CudaDevice.patPiece(nRanks, sharingSlots(nRanks, mostRanks, late));
  }

  /**
   * Returns how many times the busiest host's network sends the whole data in an all-gather or
   * reduce-scatter by PAT. At each distance every rank sends to one other rank. If ranks are
   * numbered host after host, at most as many ranks of a host as the distance send to other hosts;
   * else all of them may.
   */
  double sentByPat() {
    int nRanks = ranks.stream().mapToInt(List::size).sum();
    boolean inOrder = isInOrder();
    double sent = 0;
    for (int distance = 1; distance < nRanks; distance *= 2) {
      int pieces = (nRanks - distance + 2 * distance - 1) / (2 * distance);
      sent += (double) (inOrder ? Math.min(distance, mostRanks) : mostRanks) * pieces;
    }
    return sent / nRanks;
  }

  /** All on one host, with memory in common. */
  public static RankPlacement together(int nRanks) {
    return new RankPlacement(1, nRanks, false);
  }
}
