package org.nccl4j.api.plan;

import java.util.stream.Stream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.kernel.Collective;
import org.nccl4j.device.kernel.DirectWork;

/** The operations that a user calls. */
public enum Func {
  /** Broadcast. */
  BROADCAST("broadcast", Collective.BROADCAST),
  /** Reduce. */
  REDUCE("reduce", Collective.REDUCE),
  /** All-gather. */
  ALL_GATHER("all_gather", Collective.ALL_GATHER),
  /** Reduce-scatter. */
  REDUCE_SCATTER("reduce_scatter", Collective.REDUCE_SCATTER),
  /** All-reduce. */
  ALL_REDUCE("all_reduce", Collective.ALL_REDUCE),
  /** Send. */
  SEND("send", null),
  /** Receive. */
  RECV("recv", null),
  /** All-to-all. */
  ALL_TO_ALL("alltoall", null),
  /** Scatter. */
  SCATTER("scatter", null),
  /** Gather. */
  GATHER("gather", null);

  /** What settings call sends and receives, whatever operation they are of. */
  static final String SENDRECV = "sendrecv";

  private final String label;
  private final Collective collective;

  Func(String label, Collective collective) {
    this.label = label;
    this.collective = collective;
  }

  /** The name in nccl-tests. */
  public String label() {
    return label;
  }

  /**
   * The operation of a name in nccl-tests.
   *
   * @throws InvalidArgumentException for an operation that does not exist
   */
  public static Func labelled(String label) {
    return Stream.of(values())
        .filter(func -> func.label.equals(label))
        .findFirst()
        .orElseThrow(
            () ->
                new InvalidArgumentException(
                    ErrorId.NAME,
                    "there is no operation '" + label + "'",
                    "use one of " + Stream.of(values()).map(Func::label).toList()));
  }

  /** The collective with algorithms of its own that it is, or null if it is made of sends. */
  public Collective collective() {
    return collective;
  }

  /** The direct operation that it is, or null. */
  public DirectWork.Operation direct() {
    return switch (this) {
      case BROADCAST -> DirectWork.Operation.BROADCAST;
      case REDUCE -> DirectWork.Operation.REDUCE;
      case ALL_GATHER -> DirectWork.Operation.ALL_GATHER;
      case REDUCE_SCATTER -> DirectWork.Operation.REDUCE_SCATTER;
      case ALL_REDUCE -> DirectWork.Operation.ALL_REDUCE;
      case ALL_TO_ALL -> DirectWork.Operation.ALL_TO_ALL;
      case SCATTER -> DirectWork.Operation.SCATTER;
      case GATHER -> DirectWork.Operation.GATHER;
      case SEND, RECV -> null;
    };
  }

  /** Whether it combines elements. */
  public boolean reduces() {
    return this == REDUCE || this == REDUCE_SCATTER || this == ALL_REDUCE;
  }
}
