package org.nccl4j.operation;

import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * The data movement of an operation, with the names in NCCL_ALGO and what each algorithm needs. The
 * order of the first six is the kernels' (algorithms.h).
 */
public enum Algorithm {
  /** Double binary tree; of a broadcast or reduce, from the root of the operation on. */
  TREE(
      "Tree",
      Needs.CONNECTIONS,
      Set.of(Operation.ALL_REDUCE, Operation.BROADCAST, Operation.REDUCE),
      Traffic.TREE),
  /** Ring. */
  RING("Ring", Needs.CONNECTIONS, Set.copyOf(Operation.collectives()), Traffic.RING),
  /** Every rank sends all that another needs straight to it, and combines what it receives. */
  ONE_SHOT(
      "OneShot", Needs.CONNECTIONS_OF_ALL, Set.copyOf(Operation.collectives()), Traffic.ONE_SHOT),
  /** Reduce-scatter straight to each part's owner, then all-gather straight from it. */
  TWO_SHOT("TwoShot", Needs.CONNECTIONS_OF_ALL, Set.of(Operation.ALL_REDUCE), Traffic.TWO_SHOT),
  /** Parallel aggregated trees: a tree for each rank's part, their messages put together. */
  PAT(
      "PAT",
      Needs.CONNECTIONS_AT_DISTANCES,
      Set.of(Operation.ALL_GATHER, Operation.REDUCE_SCATTER),
      Traffic.PAT,
      Protocol.SIMPLE),
  /**
   * Along rings within the hosts, and along rings of the ranks with one number on each of the
   * hosts: between hosts a rank sends its share of its host's data alone.
   */
  HIERARCHICAL("Hierarchical", Needs.EVEN_HOSTS, OperationSets.WITHOUT_ROOT, Protocol.SIMPLE),
  /** NVLink SHARP: each head combines its part by loads from all, and gives it out by one store. */
  NVLS("NVLS", Needs.MULTICAST, OperationSets.WITHOUT_ROOT, Protocol.SIMPLE),
  /**
   * Between machines: each head combines its part of its machine as in NVLS; the heads of one part
   * combine theirs along a double binary tree, and give the result out on their machines.
   */
  NVLS_TREE("NVLSTree", Needs.MULTICAST, Set.of(Operation.ALL_REDUCE), Protocol.SIMPLE),
  /**
   * With ranks at distances 1, 2, 4, ...: along a binomial tree from the root or to it; all-reduce
   * by recursive doubling, reduce-scatter by recursive halving. On the host device alone.
   */
  DOUBLING(
      "Doubling",
      Needs.HOST_MEMORY,
      Set.of(Operation.BROADCAST, Operation.REDUCE, Operation.ALL_REDUCE, Operation.REDUCE_SCATTER),
      Traffic.DOUBLING),
  /** Through lines of data and flags in the library's own window; needs no window of the user's. */
  DIRECT_LL("DirectLL", Needs.WINDOWS, OperationSets.OF_ALL_RANKS, Protocol.LL),
  /** The same in lines of LL128, for more data. */
  DIRECT_LL128("DirectLL128", Needs.WINDOWS, OperationSets.OF_ALL_RANKS, Protocol.LL128),
  /** Between barriers, each rank takes or gives all that it needs or has. */
  DIRECT_ONE_SHOT("DirectOneShot", Needs.WINDOWS, OperationSets.OF_ALL_RANKS, Protocol.SIMPLE),
  /** Between barriers, each rank combines a part of the data and gives it to all. */
  DIRECT_TWO_SHOT("DirectTwoShot", Needs.WINDOWS, Set.of(Operation.ALL_REDUCE), Protocol.SIMPLE),
  /**
   * Between barriers, by the device's copy engines. Between two ranks with a kernel beside them,
   * which also combines; then the send and receive buffers may not overlap.
   */
  COPY_ENGINE("CopyEngine", Needs.COPY_ENGINES, OperationSets.OF_COPIES_BESIDE, Protocol.SIMPLE),
  /** The same with all of a rank's copies in one call of the driver, and no barriers between. */
  COPY_ENGINE_BATCH(
      "CopyEngineBatch", Needs.COPY_ENGINES, OperationSets.OF_COPIES, Protocol.SIMPLE),
  /**
   * Copies by copy engines as above, with barriers through the streams' memory operations. No
   * kernel is launched.
   */
  COPY_ENGINE_STREAM(
      "CopyEngineStream", Needs.COPY_ENGINES, OperationSets.OF_COPIES, Protocol.SIMPLE),
  /**
   * NVLS in place: between barriers, each head combines its part by loads from all ranks' windows
   * at once, and gives it to all by one store.
   */
  DIRECT_NVLS("NVLS", Needs.MULTICAST_WINDOWS, OperationSets.WITHOUT_ROOT, Protocol.SIMPLE),
  /**
   * DirectLL with multicast: one store sends a line to all ranks. It needs no window of the user,
   * but multicast to the library's own window.
   */
  DIRECT_NVLS_LL(
      "NVLS",
      Needs.MULTICAST_WINDOWS,
      Set.of(Operation.ALL_REDUCE, Operation.ALL_GATHER),
      Protocol.LL),
  /** Sends and receives between all pairs of ranks, of operations without algorithms. */
  PAIRWISE(
      "Pairwise",
      Needs.CONNECTIONS,
      Set.of(
          Operation.ALL_TO_ALL,
          Operation.SCATTER,
          Operation.GATHER,
          Operation.SEND,
          Operation.RECV)),
  /**
   * Between hosts with several ranks: a rank sends what a host's ranks get from it in one message
   * to the rank with its own number there, which gives it to them. On the host and on GPUs.
   */
  RAILS("Rails", Needs.SHARED_HOSTS, Set.of(Operation.ALL_TO_ALL)),
  /** Heads that reduce in the network, each reached by all GPUs of its machine. */
  COLLNET_DIRECT(
      "CollNetDirect", Needs.NETWORK_REDUCTION, OperationSets.WITHOUT_ROOT, Protocol.SIMPLE),
  /** A chain to a head that reduces in the network. */
  COLLNET_CHAIN(
      "CollNetChain", Needs.NETWORK_REDUCTION, Set.of(Operation.ALL_REDUCE), Protocol.SIMPLE);

  private static final List<Algorithm> OVER_CONNECTIONS =
      Stream.of(values())
          .filter(
              algorithm ->
                  algorithm.traffic != null
                      || algorithm.needs == Needs.MULTICAST
                      || algorithm.needs == Needs.EVEN_HOSTS)
          .toList();

  private static final List<Algorithm> OF_NCCL =
      List.of(TREE, RING, COLLNET_DIRECT, COLLNET_CHAIN, NVLS, NVLS_TREE, PAT);

  private static final List<Algorithm> STRAIGHT =
      Stream.of(values()).filter(Algorithm::isStraight).toList();

  private static final List<Algorithm> BETWEEN_WINDOWS =
      Stream.of(values()).filter(Algorithm::isBetweenWindows).toList();

  /** Requirements of an algorithm. */
  private enum Needs {
    /** Connections to some other ranks. */
    CONNECTIONS,
    /** Connections to all other ranks, and room for each in a kernel. */
    CONNECTIONS_OF_ALL,
    /**
     * Connections to the ranks at distances of powers of two, and room in a slot for a piece of
     * half of the ranks' data.
     */
    CONNECTIONS_AT_DISTANCES,
    /** Connections, and several hosts, one of which at least has several ranks. */
    SHARED_HOSTS,
    /** Connections, and several hosts with as many ranks each, more than one. */
    EVEN_HOSTS,
    /** Connections to all other ranks, all in memory of the host; GPUs do not have it. */
    HOST_MEMORY,
    /** A multicast object of the communicator. */
    MULTICAST,
    /** Windows, or the library's own. */
    WINDOWS,
    /** Windows and copy engines, or what does as they. */
    COPY_ENGINES,
    /** Windows that one access reaches on all ranks. */
    MULTICAST_WINDOWS,
    /** A network that reduces. No transport provides it; NCCL's cost model knows it. */
    NETWORK_REDUCTION
  }

  /**
   * The traffic of an algorithm over connections.
   *
   * @param steps the longest chain of hand-overs from rank to rank
   * @param messages that the busiest rank sends or receives; where it does as much of both, those
   *     of one direction
   * @param sent how many times the busiest rank sends the whole data
   */
  private record Traffic(Amount steps, Amount messages, Amount sent) {
    static final Traffic RING =
        new Traffic(
            (operation, n) -> (operation == Operation.ALL_REDUCE ? 2 : 1) * (n - 1),
            (operation, n) ->
                switch (operation) {
                  case ALL_REDUCE -> 2 * (n - 1);
                  case ALL_GATHER, REDUCE_SCATTER -> n - 1;
                  default -> Math.min(2, n - 1);
                },
            (operation, n) ->
                switch (operation) {
                  case ALL_REDUCE -> 2 * share(n);
                  case ALL_GATHER, REDUCE_SCATTER -> share(n);
                  default -> 1;
                });

    /** With a root, from one leaf to another at most, and from the root to three neighbours. */
    static final Traffic TREE =
        new Traffic(
            (operation, n) ->
                operation.isRooted() ? Math.max(levels(n), 2 * levels(n) - 2) : 2 * levels(n) + 1,
            (operation, n) -> operation.isRooted() ? Math.min(3, n - 1) : 6,
            (operation, n) -> operation.isRooted() ? 1.5 : 3);

    static final Traffic ONE_SHOT =
        new Traffic(
            (operation, n) -> 1,
            (operation, n) -> n - 1,
            (operation, n) ->
                switch (operation) {
                  case ALL_GATHER, REDUCE_SCATTER -> share(n);
                  default -> n - 1;
                });

    /** Messages that are only copied, as all ranks' at the same time, count half. */
    static final Traffic TWO_SHOT =
        new Traffic(
            (operation, n) -> 2, (operation, n) -> 1.5 * (n - 1), (operation, n) -> 2 * share(n));

    static final Traffic PAT =
        new Traffic(
            (operation, n) -> levels(n), (operation, n) -> levels(n), (operation, n) -> share(n));

    static final Traffic DOUBLING =
        new Traffic(
            Traffic::exchanges,
            Traffic::exchanges,
            (operation, n) ->
                operation == Operation.REDUCE_SCATTER
                    ? share(n) + spares(n)
                    : exchanges(operation, n));

    /** An amount of an operation among n ranks. */
    interface Amount {
      double of(Operation operation, int n);
    }

    private static double share(int n) {
      return (double) (n - 1) / n;
    }

    /** Hand-overs with ranks at distances of powers of two. */
    private static double exchanges(Operation operation, int n) {
      return operation.isRooted()
          ? levels(n)
          : Integer.numberOfTrailingZeros(Integer.highestOneBit(n)) + 2 * spares(n);
    }

    /** Returns 1 if some ranks leave their work to others, to and fro, else 0. */
    private static int spares(int n) {
      return Integer.bitCount(n) == 1 ? 0 : 1;
    }

    private static double levels(int n) {
      return Math.ceil(Math.log(n) / Math.log(2));
    }
  }

  /** Operations that several algorithms have. */
  private static final class OperationSets {
    static final Set<Operation> OF_ALL_RANKS = Set.copyOf(Operation.ofAllRanks());

    static final Set<Operation> OF_COPIES = those(operation -> !operation.reduces());

    static final Set<Operation> OF_COPIES_BESIDE =
        those(operation -> !operation.reduces() || !operation.isRooted());

    private static Set<Operation> those(Predicate<Operation> which) {
      return Operation.ofAllRanks().stream().filter(which).collect(Collectors.toUnmodifiableSet());
    }

    static final Set<Operation> WITHOUT_ROOT =
        Set.of(Operation.ALL_REDUCE, Operation.ALL_GATHER, Operation.REDUCE_SCATTER);
  }

  private final String label;
  private final Needs needs;
  private final Set<Operation> operations;
  private final List<Protocol> protocols;

  /** Null where steps do not go from rank to rank. */
  private final Traffic traffic;

  Algorithm(String label, Needs needs, Set<Operation> operations, Protocol... protocols) {
    this(label, needs, operations, /* traffic= */ null, protocols);
  }

  Algorithm(
      String label,
      Needs needs,
      Set<Operation> operations,
      Traffic traffic,
      Protocol... protocols) {
    this.traffic = traffic;
    this.label = label;
    this.needs = needs;
    this.operations = operations;
    this.protocols = List.of(protocols.length == 0 ? Protocol.values() : protocols);
  }

  /**
   * All names that NCCL_ALGO takes: {@link #names}, and those that NCCL has besides, which match
   * nothing.
   */
  public static List<String> accepted() {
    return Stream.concat(names().stream(), OF_NCCL.stream().map(Algorithm::label))
        .distinct()
        .toList();
  }

  /** The names of the algorithms that NCCL_ALGO can select. */
  public static List<String> names() {
    return Stream.of(values())
        .filter(algorithm -> algorithm != PAIRWISE && !algorithm.isCollNet())
        .map(Algorithm::label)
        .distinct()
        .toList();
  }

  /** The algorithms that NCCL's cost model compares, in NCCL's order. */
  public static List<Algorithm> ofNccl() {
    return OF_NCCL;
  }

  /** The algorithms of collectives that need no windows. */
  public static List<Algorithm> overConnections() {
    return OVER_CONNECTIONS;
  }

  /**
   * The algorithms over connections that every device has for an operation, whatever hosts the
   * ranks are on.
   *
   * @param all whether there are connections to all other ranks for the kernels to use
   */
  public static List<Algorithm> overConnections(Operation operation, boolean all) {
    return OVER_CONNECTIONS.stream()
        .filter(algorithm -> algorithm.has(operation))
        .filter(algorithm -> algorithm.needs == Needs.CONNECTIONS || all && algorithm.isStraight())
        .toList();
  }

  /** The algorithms that go straight between windows. */
  public static List<Algorithm> betweenWindows() {
    return BETWEEN_WINDOWS;
  }

  /** The algorithm on multicast windows of a table's line, if it is of one. */
  public static Optional<Algorithm> ofMulticast(String name, String protocol) {
    return BETWEEN_WINDOWS.stream()
        .filter(Algorithm::isMulticast)
        .filter(way -> way.inTables().equals(name) && way.protocol().label().equals(protocol))
        .findFirst();
  }

  /** The algorithms over connections that combine every element in the order of the ranks. */
  public static List<Algorithm> inRankOrder() {
    return STRAIGHT;
  }

  /** The name in NCCL_ALGO and in JSON. */
  public String label() {
    return label;
  }

  /** The name in tables of times, where NVLS in place differs from NVLS through slots. */
  public String inTables() {
    return this == DIRECT_NVLS ? "DirectNVLS" : label;
  }

  /** True if it can do an operation at all, on some device. */
  public boolean has(Operation operation) {
    return operations.contains(operation);
  }

  /** True if its steps can be handed over by a protocol. */
  public boolean has(Protocol protocol) {
    return protocols.contains(protocol);
  }

  /** True if each rank sends straight to all others, over connections. */
  public boolean isStraight() {
    return needs == Needs.CONNECTIONS_OF_ALL;
  }

  /**
   * True if it is chosen for an operation only among ranks of several hosts, unless the user names
   * it: what it saves are messages between hosts.
   */
  public boolean isBetweenHosts(Operation operation) {
    return this == TREE && operation.isRooted() || this == PAT;
  }

  /** True if GPUs do not have it. */
  public boolean isOfHostAlone() {
    return needs == Needs.HOST_MEMORY;
  }

  /**
   * The longest chain of hand-overs from rank to rank.
   *
   * @throws IllegalArgumentException for algorithms that do not go over connections alone, and for
   *     those whose steps depend on the hosts
   */
  public double steps(Operation operation, int nRanks) {
    return traffic().steps.of(operation, nRanks);
  }

  /**
   * Returns the messages that the busiest rank sends or receives, as they count; throws as {@link
   * #steps}.
   */
  public double messages(Operation operation, int nRanks) {
    return traffic().messages.of(operation, nRanks);
  }

  /** Returns how many times the busiest rank sends the whole data; throws as {@link #steps}. */
  public double sent(Operation operation, int nRanks) {
    return traffic().sent.of(operation, nRanks);
  }

  private Traffic traffic() {
    if (traffic == null) {
      throw new IllegalArgumentException(label);
    }
    return traffic;
  }

  /**
   * The algorithm over connections that moves as many bytes over the same links as this one between
   * windows.
   *
   * @throws IllegalArgumentException if there is none
   */
  public Algorithm counterpart() {
    return switch (this) {
      case DIRECT_LL, DIRECT_LL128, DIRECT_ONE_SHOT, COPY_ENGINE -> ONE_SHOT;
      case DIRECT_TWO_SHOT -> TWO_SHOT;
      default -> throw new IllegalArgumentException(label);
    };
  }

  /** The protocol of an algorithm between windows, by which NCCL_PROTO counts it. */
  public Protocol protocol() {
    return protocols.get(0);
  }

  /** True if it goes straight between windows. */
  public boolean isBetweenWindows() {
    return needs == Needs.WINDOWS
        || needs == Needs.COPY_ENGINES
        || needs == Needs.MULTICAST_WINDOWS;
  }

  /** True if copy engines carry the data. */
  public boolean needsCopyEngines() {
    return needs == Needs.COPY_ENGINES;
  }

  /** True if the NVSwitch reduces, between connections. */
  public boolean isNvls() {
    return needs == Needs.MULTICAST;
  }

  /** True if the network reduces. */
  public boolean isCollNet() {
    return needs == Needs.NETWORK_REDUCTION;
  }

  /** True if it reaches all ranks' windows by one access. */
  public boolean isMulticast() {
    return needs == Needs.MULTICAST_WINDOWS;
  }

  /** True if it goes through lines in the library's own window. */
  public boolean isLines() {
    return this == DIRECT_LL || this == DIRECT_LL128 || this == DIRECT_NVLS_LL;
  }

  /** True if the whole send buffer of every rank must lie in a window. */
  public boolean needsSend(Operation operation) {
    return !isLines() && (operation.reduces() || operation == Operation.GATHER);
  }

  /** True if the whole receive buffer of every rank must lie in a window. */
  public boolean needsRecv(Operation operation) {
    return switch (operation) {
      case BROADCAST, ALL_GATHER, ALL_TO_ALL, SCATTER -> !isLines();
      case ALL_REDUCE -> this == DIRECT_TWO_SHOT || this == DIRECT_NVLS || this == COPY_ENGINE;
      case REDUCE_SCATTER -> this == COPY_ENGINE;
      default -> false;
    };
  }

  /**
   * True if an operation is slow unless its buffers lie alike in packs of 16 bytes: other data are
   * combined rank by rank.
   */
  public boolean needsAlike(Operation operation) {
    return this == DIRECT_NVLS && operation == Operation.ALL_REDUCE;
  }

  /** True if what one rank writes to the output would be taken for another rank's input. */
  public boolean needsApart(Operation operation) {
    return this == COPY_ENGINE && operation.reduces()
        || this == DIRECT_ONE_SHOT && operation == Operation.ALL_REDUCE;
  }
}
