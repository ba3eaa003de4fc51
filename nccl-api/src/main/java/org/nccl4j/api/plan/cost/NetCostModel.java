package org.nccl4j.api.plan.cost;

import java.util.ArrayList;
import java.util.List;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/**
 * Costs on the host device if some connections use a network: a latency for each dependent step
 * between hosts, the work for each message, and the bytes that a host's network sends. LL saves
 * nothing there, and is not offered. The figures are the same on all hosts.
 *
 * @param nRanks ranks
 * @param spread over hosts
 */
record NetCostModel(int nRanks, RankPlacement spread) implements CostModel {
  /** One way, application to application. */
  private static final double FLIGHT = 15;

  /** System calls of one message, at both ends. */
  private static final double MESSAGE = 6;

  private static final double LOCAL_HOP = 0.5;
  private static final double NETWORK_GIGABYTES = 1.2;
  private static final double MEMORY_GIGABYTES = 8;
  private static final int LEAST_CHUNK = 64 << 10;
  private static final int CHUNKS_A_PART = 4;

  @Override
  public List<Algorithm> algorithms(Operation operation) {
    List<Algorithm> algorithms =
        new ArrayList<>(Algorithm.overConnections(operation, /* all= */ true));
    if (Algorithm.PAT.has(operation)) {
      algorithms.add(algorithms.indexOf(Algorithm.RING) + 1, Algorithm.PAT);
    }
    if (Algorithm.HIERARCHICAL.has(operation) && spread.isGrid()) {
      algorithms.add(Algorithm.HIERARCHICAL);
    }
    return algorithms;
  }

  @Override
  public String lacks(Operation operation) {
    return spread.lacksGrid(operation);
  }

  @Override
  public List<Protocol> protocols() {
    return List.of(Protocol.SIMPLE);
  }

  @Override
  public double microseconds(
      Operation operation, Algorithm algorithm, Protocol protocol, long bytes) {
    boolean unasked = algorithm != Algorithm.HIERARCHICAL || savesMuch();
    return (unasked ? 0 : ONLY_WHERE_ASKED)
        + latency(operation, algorithm)
        + sent(operation, algorithm) * bytes / (NETWORK_GIGABYTES * 1e3)
        + moved(operation, algorithm) * bytes / (MEMORY_GIGABYTES * 1e3);
  }

  /**
   * True if a host sends at least a quarter less than in a ring by the hierarchical way. Where it
   * saves less, it took longer as measured: then all ranks wait for the network, not one of a host.
   */
  private boolean savesMuch() {
    return 4 * (spread.hosts() - 1) * spread.mostRanks() <= 3 * (nRanks - 1);
  }

  private double latency(Operation operation, Algorithm algorithm) {
    int others = nRanks - 1;
    int turns = operation == Operation.ALL_REDUCE ? 2 : 1;
    return switch (algorithm) {
      case RING ->
          turns * (spread.hosts() * (FLIGHT + MESSAGE) + (nRanks - spread.hosts()) * LOCAL_HOP);
      case TREE -> tree(operation);
      case PAT -> levels(nRanks) * (FLIGHT + MESSAGE);
      case HIERARCHICAL ->
          turns
              * ((spread.hosts() - 1) * (FLIGHT + MESSAGE)
                  + spread.hosts() * (spread.mostRanks() - 1) * LOCAL_HOP);
      default -> algorithm.steps(operation, nRanks) * (FLIGHT + others * MESSAGE);
    };
  }

  private double tree(Operation operation) {
    double between =
        operation.isRooted()
            ? Algorithm.TREE.steps(operation, spread.hosts())
            : 2 * levels(spread.hosts());
    return between * (FLIGHT + MESSAGE) + 2 * levels(spread.mostRanks()) * LOCAL_HOP;
  }

  /** Ups and downs of a tree between hosts, and what a host sends of a whole in it. */
  static double treeMicroseconds(int hosts, long bytes) {
    return 2 * levels(hosts) * (FLIGHT + MESSAGE)
        + treeSent(Operation.ALL_REDUCE, hosts) * bytes / (NETWORK_GIGABYTES * 1e3);
  }

  /**
   * Returns how many times the busiest host sends the whole data in the double binary tree between
   * hosts. In an all-reduce a host sends half of the data to each of its neighbours in each of the
   * two trees. Among four hosts or more some host has three neighbours in one tree and one in the
   * other; of two hosts, each has one in either. From one root a host sends to its children alone;
   * among many hosts the count is between that of the roots with the most and the fewest.
   */
  static double treeSent(Operation operation, int hosts) {
    return switch (hosts) {
      case 2 -> 1;
      case 3 -> 1.5;
      default -> operation.isRooted() ? 1.5 : 2;
    };
  }

  /** Steps of a binary tree from its root to the last of so many. */
  static double levels(int members) {
    return Math.ceil(Math.log(members) / Math.log(2));
  }

  /** Returns how many times the busiest host's network sends the whole data. */
  private double sent(Operation operation, Algorithm algorithm) {
    if (spread.hosts() == 1) {
      return 0;
    }
    double share = (double) (nRanks - 1) / nRanks;
    double crossing = (double) spread.mostRanks() * (nRanks - spread.mostRanks()) / nRanks;
    return switch (algorithm) {
      case RING ->
          switch (operation) {
            case ALL_REDUCE -> 2 * share;
            case ALL_GATHER, REDUCE_SCATTER -> share;
            default -> 1;
          };
      case HIERARCHICAL -> spread.sentByHierarchical(operation);
      case PAT -> spread.sentByPat();
      case TREE -> treeSent(operation, spread.hosts());
      case ONE_SHOT -> oneShotSent(operation, nRanks, spread.mostRanks());
      default -> algorithm.sent(operation, nRanks) / share * crossing;
    };
  }

  /** Returns how many times the busiest host's network sends the whole data in one shot. */
  static double oneShotSent(Operation operation, int nRanks, int mostRanks) {
    double far = nRanks - mostRanks;
    return switch (operation) {
      case ALL_REDUCE -> mostRanks * far;
      case ALL_GATHER, REDUCE_SCATTER -> mostRanks * far / nRanks;
      default -> far;
    };
  }

  /** Returns how many times the busiest rank moves the whole data through memory and sockets. */
  private double moved(Operation operation, Algorithm algorithm) {
    double others = nRanks - 1;
    double share = others / nRanks;
    boolean allReduce = operation == Operation.ALL_REDUCE;
    return switch (algorithm) {
      case RING, HIERARCHICAL -> allReduce ? 4 * share : 2;
      case PAT -> 2;
      case TREE -> 2 * sentInTrees(operation, spread.mostRanks(), spread.hosts());
      case ONE_SHOT ->
          switch (operation) {
            case ALL_REDUCE -> 2.4 * others;
            case ALL_GATHER, REDUCE_SCATTER -> 2 * share;
            default -> 1 + others;
          };
      default -> 2.1 * algorithm.sent(operation, nRanks);
    };
  }

  /**
   * Returns how many times the busiest rank sends the whole data in trees, to other hosts and to
   * ranks of its own host if it has others. It receives as much.
   */
  static double sentInTrees(Operation operation, int mostRanks, int hosts) {
    double near = mostRanks > 1 ? 1 : 0;
    return operation.isRooted() ? 1.5 : near + treeSent(operation, hosts);
  }

  @Override
  public int channels(Operation operation, AlgorithmChoice choice, long bytes) {
    return 1;
  }

  @Override
  public int chunkBytes(
      ConnectionLayout layout, Operation operation, AlgorithmChoice choice, long bytes) {
    long part = bytes / nRanks;
    // A message of PAT carries the chunks of up to half of the ranks.
    int together = choice.algorithm() == Algorithm.PAT ? nRanks / 2 : 1;
    long chunk = together * Math.max(LEAST_CHUNK, part / CHUNKS_A_PART & -LEAST_CHUNK);
    return (int) Math.max(LEAST_CHUNK, Math.min(layout.simpleSlotBytes(), chunk));
  }

  @Override
  public long smallSendBytes(Operation operation) {
    return -1;
  }

  @Override
  public String source() {
    return "formula of latency, messages and bandwidth, %d hosts, %d ranks"
        .formatted(spread.hosts(), nRanks);
  }

  @Override
  public String source(Operation operation, Algorithm algorithm, Protocol protocol) {
    return "formula, fitted on sockets";
  }
}
