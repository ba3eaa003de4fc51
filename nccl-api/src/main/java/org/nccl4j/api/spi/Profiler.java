package org.nccl4j.api.spi;

/**
 * Receives the operations of one rank of a communicator, and the steps of its network connections.
 * Several threads call its methods at the same time: threads that launch, run operations, and carry
 * data. So the methods must be short and must not call operations.
 */
public interface Profiler extends AutoCloseable {
  /** Bit of the mask: operations when they are launched. */
  int LAUNCHES = 1;

  /** Bit of the mask: operations when they end in their streams. */
  int ENDS = 2;

  /** Bit of the mask: steps of proxies. */
  int PROXY_STEPS = 4;

  /** The events to receive, as a sum of the constants above; called once. */
  int activation();

  /**
   * An operation.
   *
   * @param number of those of this rank, from 1
   * @param name as in nccl-tests, such as "all_reduce"
   * @param count elements, as in the call
   * @param bytes of those elements
   * @param root or peer; 0 where there is none
   */
  record Operation(long number, String name, long count, long bytes, int root) {}

  /** Receives an operation that was launched; called only with {@link #LAUNCHES}. */
  default void launched(Operation operation) {}

  /**
   * All of its stream up to it has ended; only with {@link #ENDS}, and not of what was captured
   * into a graph.
   */
  default void ended(Operation operation) {}

  /**
   * The state of a proxy's step. A sender's step is FILLED, POSTED and DONE, a receiver's POSTED,
   * RECEIVED and DONE, in this order. Each state is reported when the proxy sees it. For one
   * channel of a connection, each state is reported in the order of the steps.
   */
  enum StepState {
    /** A kernel has filled the slot. The wait for room at the receiver follows. */
    FILLED,

    /** The network has it: it sends the slot, or may receive into it. */
    POSTED,

    /** The data have come. The flush follows, where they are in a GPU's memory. */
    RECEIVED,

    /** A kernel may fill the sender's slot again, or take what is in the receiver's. */
    DONE
  }

  /**
   * A step of a connection over a network: one slot of it, sent or received by a proxy. Proxies
   * know nothing of operations, so neither does this. Those of a communicator that shares its
   * parent's connections are the parent's.
   *
   * @param rank whose data it sends or receives: another than this where this rank sends for one
   *     whose own network card is farther (PXN)
   * @param peer the rank at the other end
   * @param connection 0 for the one that operations go by; 1 for puts and signals that go as
   *     messages
   * @param channel of the connection
   * @param sends whether it sends, else it receives
   * @param number of those of the channel in this direction, from 0
   * @param bytes of its data; 0 of what has yet to be received
   */
  record ProxyStep(
      int rank,
      int peer,
      int connection,
      int channel,
      boolean sends,
      long number,
      int bytes,
      StepState state) {}

  /**
   * A proxy has come so far with a step; only with {@link #PROXY_STEPS}. Kernels of the host device
   * carry data while they wait, else the communicator's proxy thread does.
   */
  default void stepped(ProxyStep step) {}

  /** The communicator is closed. Operations under way at this time may still be reported. */
  @Override
  default void close() {}
}
