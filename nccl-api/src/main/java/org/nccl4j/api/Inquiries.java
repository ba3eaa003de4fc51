package org.nccl4j.api;

import java.util.Map;
import java.util.Optional;
import org.nccl4j.api.group.OperationDispatcher;
import org.nccl4j.api.init.CommunicatorState;
import org.nccl4j.api.plan.AlgorithmChoice;
import org.nccl4j.device.Arguments;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.kernel.Operation;

/** The queries of a {@link Communicator}. */
public abstract sealed class Inquiries extends Operations permits Communicator {
  private final CommunicatorConfig config;

  Inquiries(CommunicatorState state, OperationDispatcher queue, CommunicatorConfig config) {
    super(state, queue);
    this.config = config;
  }

  /** This rank. */
  public int rank() {
    return state.rank();
  }

  /** The number of ranks. */
  public int nRanks() {
    return state.nRanks();
  }

  /** This rank's device. */
  public Device device() {
    return state.device();
  }

  /** The name of the configuration, or a number. */
  public String name() {
    return state.name();
  }

  /** The transport to each other rank, by rank; this rank has no entry. */
  public Map<Integer, String> transports() {
    return state.routes();
  }

  /**
   * The planner's decision for an operation of a size, as a table: every algorithm and protocol
   * with its predicted time, the choice, and the reason; the same for buffers in windows, if all
   * ranks can access each other's memory; at the end the transports to the other ranks.
   *
   * @param operation a name of nccl-tests, such as "all_reduce" or "alltoall"
   * @param count the count of the call
   * @throws InvalidArgumentException for an unknown operation or a negative count
   */
  public String explain(String operation, long count, DataType type) {
    Arguments.notNull(type, "type of the elements");
    Operation named = Operation.named(operation);
    return queue.planner().explain(named, Arguments.count(count), type)
        + queue.direct().explain(named, count, type)
        + state.explainRoutes();
  }

  /**
   * The algorithm and the protocol for an operation of a size, such as "Ring" and "LL".
   *
   * @param operation a name of nccl-tests
   * @param count the count of the call
   * @throws InvalidArgumentException for an unknown operation or a negative count
   */
  public Decision decision(String operation, long count, DataType type) {
    Arguments.notNull(type, "type of the elements");
    return decision(
        queue.planner().choice(Operation.named(operation), Arguments.count(count), type));
  }

  /**
   * As {@link #decision}, for buffers that lie in windows or are registered on all ranks, out of
   * place.
   */
  public Decision decisionInWindows(String operation, long count, DataType type) {
    Arguments.notNull(type, "type of the elements");
    return queue
        .direct()
        .withWindows(Operation.named(operation), Arguments.count(count), type)
        .map(Inquiries::decision)
        .orElseGet(() -> decision(operation, count, type));
  }

  private static Decision decision(AlgorithmChoice choice) {
    return new Decision(choice.algorithm().label(), choice.protocol().label());
  }

  /** True while the communicator is suspended. */
  public boolean isSuspended() {
    return state.isSuspended();
  }

  /**
   * Bytes of this rank's device memory in use, by purpose; empty while suspended and after close.
   */
  public Map<String, Long> memory() {
    return state.memory();
  }

  /** The configuration of the creation. */
  public CommunicatorConfig config() {
    return config;
  }

  /** Its name, rank and number of ranks, for messages and logs. */
  @Override
  public String toString() {
    return "communicator %s, rank %d of %d".formatted(name(), rank(), nRanks());
  }

  /** The first failure of this communicator, on this rank or another, if there was one. */
  public Optional<NcclException> asyncError() {
    return Optional.ofNullable(state.failure());
  }
}
