package org.nccl4j.operation;

import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;

/**
 * The operations of a communicator, with the facts of each. The order is the kernels' ( layout.h,
 * nccl4jCollective and nccl4jDirectOperation), and that of a call's numbers.
 */
public enum Operation {
  /** One rank's data to all. */
  BROADCAST("Broadcast", "broadcast", Kind.COLLECTIVE, Parts.ONE_AT_ROOT, Parts.ONE),
  /** All ranks' data combined, to one. */
  REDUCE("Reduce", "reduce", Kind.COLLECTIVE, Parts.ONE, Parts.ONE_AT_ROOT),
  /** Each rank's data to all. */
  ALL_GATHER("AllGather", "all_gather", Kind.COLLECTIVE, Parts.ONE, Parts.ALL),
  /** All ranks' data combined, a part to each. */
  REDUCE_SCATTER("ReduceScatter", "reduce_scatter", Kind.COLLECTIVE, Parts.ALL, Parts.ONE),
  /** All ranks' data combined, to all. */
  ALL_REDUCE("AllReduce", "all_reduce", Kind.COLLECTIVE, Parts.ONE, Parts.ONE),
  /** A part of each rank's data to each. */
  ALL_TO_ALL("AllToAll", "alltoall", Kind.EXCHANGE, Parts.ALL, Parts.ALL),
  /** A part of one rank's data to each. */
  SCATTER("Scatter", "scatter", Kind.EXCHANGE, Parts.ALL_AT_ROOT, Parts.ONE),
  /** Each rank's data to one. */
  GATHER("Gather", "gather", Kind.EXCHANGE, Parts.ONE, Parts.ALL_AT_ROOT),
  /** Data to one other rank, which receives them. */
  SEND("Send", "send", Kind.P2P, Parts.ONE, Parts.NONE),
  /** Data from one other rank, which sends them. */
  RECV("Recv", "recv", Kind.P2P, Parts.NONE, Parts.ONE),
  /** Data into a peer's window, then a signal. */
  PUT_SIGNAL("PutSignal", "put_signal", Kind.ONE_SIDED, Parts.ONE, Parts.NONE),
  /** A signal to a peer. */
  SIGNAL("Signal", "signal", Kind.ONE_SIDED, Parts.NONE, Parts.NONE),
  /** Waits for peers' signals. */
  WAIT_SIGNAL("WaitSignal", "wait_signal", Kind.ONE_SIDED, Parts.NONE, Parts.NONE),
  /** Tokens to the ranks of their experts. */
  DISPATCH("Dispatch", "dispatch", Kind.EXPERTS, Parts.ONE, Parts.NONE),
  /** Outputs of experts back to the tokens' ranks. */
  COMBINE("Combine", "combine", Kind.EXPERTS, Parts.NONE, Parts.ONE),
  /** Elements to the parts of a quantised sum. */
  QUANTISE("Quantise", "quantise", Kind.STEP, Parts.NONE, Parts.NONE),
  /** The sum of all copies of a part. */
  QUANTISED_SUM("QuantisedSum", "quantised_sum", Kind.STEP, Parts.NONE, Parts.NONE),
  /** Elements from the parts of a quantised sum. */
  DEQUANTISE("Dequantise", "dequantise", Kind.STEP, Parts.NONE, Parts.NONE),
  /** Copies of elements combined by a user's function. */
  LOCAL_REDUCTION("LocalReduction", "local_reduction", Kind.STEP, Parts.NONE, Parts.NONE),
  /** Elements of each rank to each, by counts in device memory. */
  RAGGED_ALL_TO_ALL("RaggedAllToAll", "ragged_all_to_all", Kind.RAGGED, Parts.NONE, Parts.NONE),
  /** Elements of each rank to all, by counts in device memory. */
  RAGGED_ALL_GATHER("RaggedAllGather", "ragged_all_gather", Kind.RAGGED, Parts.NONE, Parts.NONE),
  /** All ranks' data combined, a part to each, by counts in device memory. */
  RAGGED_REDUCE_SCATTER(
      "RaggedReduceScatter", "ragged_reduce_scatter", Kind.RAGGED, Parts.NONE, Parts.NONE);

  private static final List<Operation> COLLECTIVES = those(Kind.COLLECTIVE);
  private static final List<Operation> OF_ALL_RANKS = those(Kind.COLLECTIVE, Kind.EXCHANGE);
  private static final List<Operation> PLANNED = those(Kind.COLLECTIVE, Kind.EXCHANGE, Kind.P2P);

  /** Participants and routing of an operation. */
  private enum Kind {
    /** All ranks, with algorithms over connections. */
    COLLECTIVE,
    /** All ranks, by sends and receives. */
    EXCHANGE,
    /** A sender and a receiver. */
    P2P,
    /** One rank, on a window of another. */
    ONE_SIDED,
    /** All ranks, each with tokens of its own number. */
    EXPERTS,
    /** All ranks, each with counts that only its device knows. */
    RAGGED,
    /** One rank on its own memory, between the collectives of an operation in steps. */
    STEP
  }

  /** Size of a buffer as a multiple of count elements. */
  private enum Parts {
    NONE,
    ONE,
    ALL,
    ONE_AT_ROOT,
    ALL_AT_ROOT;

    int of(int nRanks, boolean isRoot) {
      return switch (this) {
        case NONE -> 0;
        case ONE -> 1;
        case ALL -> nRanks;
        case ONE_AT_ROOT -> isRoot ? 1 : 0;
        case ALL_AT_ROOT -> isRoot ? nRanks : 0;
      };
    }

    boolean isOfRoot() {
      return this == ONE_AT_ROOT || this == ALL_AT_ROOT;
    }
  }

  private final String label;
  private final String key;
  private final Kind kind;
  private final Parts sent;
  private final Parts received;

  Operation(String label, String key, Kind kind, Parts sent, Parts received) {
    this.label = label;
    this.key = key;
    this.kind = kind;
    this.sent = sent;
    this.received = received;
  }

  private static List<Operation> those(Kind... kinds) {
    return Stream.of(values()).filter(o -> List.of(kinds).contains(o.kind)).toList();
  }

  /** The operation of a {@link #key}, if there is one. */
  public static Optional<Operation> find(String key) {
    return Stream.of(values()).filter(operation -> operation.key.equals(key)).findFirst();
  }

  /** The operations for which algorithms are chosen: those of all ranks, sends and receives. */
  public static List<Operation> planned() {
    return PLANNED;
  }

  /** The {@link #key} of each operation, by its ordinal. */
  public static List<String> keys() {
    return Stream.of(values()).map(Operation::key).toList();
  }

  /** The operations with algorithms over connections. */
  public static List<Operation> collectives() {
    return COLLECTIVES;
  }

  /** The operations that all ranks call: the collectives, all-to-all, scatter and gather. */
  public static List<Operation> ofAllRanks() {
    return OF_ALL_RANKS;
  }

  /** NCCL's name, as in tables: AllReduce. */
  public String label() {
    return label;
  }

  /** The name in nccl-tests, in messages and in records: all_reduce. */
  public String key() {
    return key;
  }

  /** The name in lists of NCCL_ALGO and NCCL_PROTO; sends and receives have one together. */
  public String scope() {
    return isP2p() ? "sendrecv" : key;
  }

  /** The names that lists of NCCL_ALGO and NCCL_PROTO may begin with. */
  public static List<String> scopes() {
    return Stream.of(values())
        .filter(operation -> operation.isOfAllRanks() || operation.isP2p())
        .map(Operation::scope)
        .distinct()
        .toList();
  }

  /** The name of the user's call: allReduce. */
  public String method() {
    return Character.toLowerCase(label.charAt(0)) + label.substring(1);
  }

  /** True if it has algorithms over connections. */
  public boolean isCollective() {
    return kind == Kind.COLLECTIVE;
  }

  /** True if all ranks call it, so that it can go straight between windows. */
  public boolean isOfAllRanks() {
    return kind == Kind.COLLECTIVE || kind == Kind.EXCHANGE;
  }

  /** True if the operation is a send or a receive. */
  public boolean isP2p() {
    return kind == Kind.P2P;
  }

  /** True if one of the ranks is its root. */
  public boolean isRooted() {
    return sent.isOfRoot() || received.isOfRoot();
  }

  /** True if it combines elements. */
  public boolean reduces() {
    return this == REDUCE || this == REDUCE_SCATTER || this == ALL_REDUCE;
  }

  /** True for an all-gather or a reduce-scatter. */
  public boolean isGatherOrScatter() {
    return this == ALL_GATHER || this == REDUCE_SCATTER;
  }

  /**
   * Returns the size of a rank's send buffer as a multiple of count elements; 0 if it is not read.
   *
   * @param isRoot whether the rank is the root
   */
  public int sendParts(int nRanks, boolean isRoot) {
    return sent.of(nRanks, isRoot);
  }

  /**
   * Returns the size of a rank's receive buffer as a multiple of count elements; 0 if it is not
   * written.
   */
  public int recvParts(int nRanks, boolean isRoot) {
    return received.of(nRanks, isRoot);
  }

  /**
   * Returns the size of the larger buffer as a multiple of count elements, as tables count sizes.
   */
  public int wholes(int nRanks) {
    return Math.max(sendParts(nRanks, /* isRoot= */ true), recvParts(nRanks, /* isRoot= */ true));
  }

  /**
   * Returns bus bandwidth divided by algorithm bandwidth, as nccl-tests define them: the part of
   * the larger buffer that a rank must send or receive.
   */
  public double busFactor(int nRanks) {
    return switch (this) {
      case ALL_REDUCE -> 2.0 * (nRanks - 1) / nRanks;
      case ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, GATHER, SCATTER -> (nRanks - 1.0) / nRanks;
      default -> 1;
    };
  }
}
