package org.nccl4j.device.kernel;

import java.util.List;
import java.util.Set;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * The data movement of an operation, with the names in NCCL_ALGO and what each algorithm needs. The
 * order of the first six is the kernels' (layout.h, nccl4jAlgorithm).
 */
public enum Algorithm {
  /** Double binary tree. */
  TREE("Tree", Needs.CONNECTIONS, Set.of(Operation.ALL_REDUCE)),
  /** Ring. */
  RING("Ring", Needs.CONNECTIONS, Set.copyOf(Operation.collectives())),
  /** Every rank sends all that another needs straight to it, and combines what it receives. */
  ONE_SHOT("OneShot", Needs.CONNECTIONS, Set.copyOf(Operation.collectives())),
  /** Reduce-scatter straight to each part's owner, then all-gather straight from it. */
  TWO_SHOT("TwoShot", Needs.CONNECTIONS, Set.of(Operation.ALL_REDUCE)),
  /** NVLink SHARP: each head combines its part by loads from all, and gives it out by one store. */
  NVLS("NVLS", Needs.MULTICAST, OperationSets.OF_SWITCH, Protocol.SIMPLE),
  /**
   * Between machines: each head combines its part of its machine as in NVLS; the heads of one part
   * combine theirs along a double binary tree, and give the result out on their machines.
   */
  NVLS_TREE("NVLSTree", Needs.MULTICAST, Set.of(Operation.ALL_REDUCE), Protocol.SIMPLE),
  /**
   * Parallel aggregated trees: a tree for each rank's part, their messages put together. On the
   * host device alone.
   */
  PAT("PAT", Needs.CONNECTIONS, Set.of(Operation.ALL_GATHER, Operation.REDUCE_SCATTER)),
  /** Through lines of data and flags in the library's own window; needs no window of the user's. */
  DIRECT_LL("DirectLL", Needs.WINDOWS, OperationSets.UNROOTED, Protocol.LL),
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
   * Copies by copy engines as above, with barriers made of the streams' memory operations. No
   * kernel is launched.
   */
  COPY_ENGINE_STREAM(
      "CopyEngineStream", Needs.COPY_ENGINES, OperationSets.OF_COPIES, Protocol.SIMPLE),
  /**
   * NVLS in place: between barriers, each head combines its part by loads from all ranks' windows
   * at once, and gives it to all by one store.
   */
  DIRECT_NVLS("NVLS", Needs.MULTICAST_WINDOWS, OperationSets.OF_SWITCH, Protocol.SIMPLE),
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
          Operation.RECV));

  private static final List<Algorithm> OVER_CONNECTIONS =
      List.of(TREE, RING, ONE_SHOT, TWO_SHOT, NVLS, NVLS_TREE, PAT);

  private static final List<Algorithm> BETWEEN_WINDOWS =
      Stream.of(values()).filter(Algorithm::isBetweenWindows).toList();

  /** Requirements of an algorithm. */
  private enum Needs {
    /** Connections to other ranks. */
    CONNECTIONS,
    /** A multicast object of the communicator. */
    MULTICAST,
    /** Windows, or the library's own. */
    WINDOWS,
    /** Windows and copy engines, or what does as they. */
    COPY_ENGINES,
    /** Windows that one access reaches on all ranks. */
    MULTICAST_WINDOWS
  }

  /** Operations that several algorithms have. */
  private static final class OperationSets {
    static final Set<Operation> OF_ALL_RANKS = Set.copyOf(Operation.ofAllRanks());

    static final Set<Operation> UNROOTED = those(operation -> !operation.isRooted());

    static final Set<Operation> OF_COPIES = those(operation -> !operation.reduces());

    static final Set<Operation> OF_COPIES_BESIDE =
        those(operation -> !operation.reduces() || !operation.isRooted());

    private static Set<Operation> those(Predicate<Operation> which) {
      return Operation.ofAllRanks().stream().filter(which).collect(Collectors.toUnmodifiableSet());
    }

    static final Set<Operation> OF_SWITCH =
        Set.of(Operation.ALL_REDUCE, Operation.ALL_GATHER, Operation.REDUCE_SCATTER);
  }

  private final String label;
  private final Needs needs;
  private final Set<Operation> operations;
  private final List<Protocol> protocols;

  Algorithm(String label, Needs needs, Set<Operation> operations, Protocol... protocols) {
    this.label = label;
    this.needs = needs;
    this.operations = operations;
    this.protocols = List.of(protocols.length == 0 ? Protocol.values() : protocols);
  }

  /** All names that NCCL_ALGO takes. */
  public static List<String> names() {
    return Stream.of(values())
        .filter(algorithm -> algorithm != PAIRWISE)
        .map(Algorithm::label)
        .distinct()
        .toList();
  }

  /** The algorithms of collectives that need no windows. */
  public static List<Algorithm> overConnections() {
    return OVER_CONNECTIONS;
  }

  /** The algorithms that go straight between windows. */
  public static List<Algorithm> betweenWindows() {
    return BETWEEN_WINDOWS;
  }

  /** The algorithms over connections that combine every element in the order of the ranks. */
  public static List<Algorithm> inRankOrder() {
    return List.of(ONE_SHOT, TWO_SHOT);
  }

  /** The name in NCCL_ALGO, in tables and in JSON. */
  public String label() {
    return label;
  }

  /** True if it can do an operation at all, on some device. */
  public boolean has(Operation operation) {
    return operations.contains(operation);
  }

  /** True if its steps can be handed over by a protocol. */
  public boolean has(Protocol protocol) {
    return protocols.contains(protocol);
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

  /** True if it reaches all ranks' windows by one access. */
  public boolean isMulticast() {
    return needs == Needs.MULTICAST_WINDOWS;
  }

  /** True if it goes through lines in the library's own window. */
  public boolean isLines() {
    return this == DIRECT_LL || this == DIRECT_NVLS_LL;
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

  /** True if what one rank writes to the output would be taken for another rank's input. */
  public boolean needsApart(Operation operation) {
    return this == COPY_ENGINE && operation.reduces()
        || this == DIRECT_ONE_SHOT && operation == Operation.ALL_REDUCE;
  }
}
