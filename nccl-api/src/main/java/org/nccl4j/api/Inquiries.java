package org.nccl4j.api;

import java.util.Map;
import java.util.Optional;
import org.nccl4j.api.group.RankQueue;
import org.nccl4j.api.init.CommunicatorState;
import org.nccl4j.api.plan.Way;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.Given;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.kernel.Operation;

/** What a rank can ask its {@link Communicator}, which every object of this class is. */
public abstract sealed class Inquiries extends Operations permits Communicator {
  private final CommunicatorConfig config;

  Inquiries(CommunicatorState state, RankQueue queue, CommunicatorConfig config) {
    super(state, queue);
    this.config = config;
  }

  /** This rank. */
  public int rank() {
    return state.rank();
  }

  /** All ranks. */
  public int nRanks() {
    return state.nRanks();
  }

  /** This rank's device. */
  public Device device() {
    return state.device();
  }

  /** The name given in the configuration, or a number. */
  public String name() {
    return state.name();
  }

  /** The transport that reaches each other rank, by rank; this rank is missing. */
  public Map<Integer, String> transports() {
    return state.routes();
  }

  /**
   * What the planner decides for an operation of a size, as a table to read: every algorithm and
   * protocol with its predicted time, the choice, and the reason; and the same of buffers in
   * windows, where all ranks reach each other's memory; at the end how this rank reaches the
   * others.
   *
   * @param operation a name as in nccl-tests, such as "all_reduce" or "alltoall"
   * @param count as in the operation's call
   * @throws InvalidArgumentException for an operation that does not exist, or a negative count
   */
  public String explain(String operation, long count, DataType type) {
    Given.notNull(type, "type of the elements");
    Operation named = Operation.named(operation);
    return queue.planner().explain(named, Given.count(count), type)
        + queue.direct().explain(named, count, type)
        + state.explainRoutes();
  }

  /**
   * The algorithm and the protocol that an operation of a size will take, such as "Ring" and "LL".
   *
   * @param operation a name as in nccl-tests
   * @param count as in the operation's call
   * @throws InvalidArgumentException for an operation that does not exist, or a negative count
   */
  public Decision decision(String operation, long count, DataType type) {
    Given.notNull(type, "type of the elements");
    Way way = queue.planner().way(Operation.named(operation), Given.count(count), type);
    return new Decision(way.algorithm(), way.protocol());
  }

  /**
   * As {@link #decision}, of buffers that lie in windows or are registered on all ranks, out of
   * place.
   */
  public Decision decisionInWindows(String operation, long count, DataType type) {
    Given.notNull(type, "type of the elements");
    return queue
        .direct()
        .withWindows(Operation.named(operation), Given.count(count), type)
        .map(way -> new Decision(way.algorithm(), way.protocol()))
        .orElseGet(() -> decision(operation, count, type));
  }

  /** Whether it is suspended now. */
  public boolean isSuspended() {
    return state.isSuspended();
  }

  /**
   * Bytes of this rank's device memory that the communicator holds, by what they are for; empty
   * while it is suspended and after its close.
   */
  public Map<String, Long> memory() {
    return state.memory();
  }

  /** The configuration that it was made with. */
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
