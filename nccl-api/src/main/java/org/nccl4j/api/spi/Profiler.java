package org.nccl4j.api.spi;

/**
 * Receives the operations of one rank of a communicator, and the steps of its network connections.
 * Several threads call its methods at the same time: threads that launch, run operations, take the
 * times of a GPU, and carry data. So the methods must be short and must not call operations.
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
   * An operation that this rank launched.
   *
   * @param number among this rank's operations, from 1
   * @param name as in nccl-tests, such as "all_reduce"
   * @param count elements, as in the call
   * @param bytes of those elements
   * @param root or peer; 0 if the operation has none
   */
  record Operation(long number, String name, long count, long bytes, int root) {}

  /** Receives an operation that was launched; called only with {@link #LAUNCHES}. */
  default void launched(Operation operation) {}

  /**
   * Receives an operation that has ended, with everything before it in its stream, and when; called
   * only with {@link #ENDS}, and not for operations captured into a graph. Calls {@link
   * #ended(Operation)}, which is enough for a profiler that needs no time.
   *
   * <p>On the host device a thread that runs operations calls it at once, for the operations of a
   * stream in their order. On a GPU one thread calls it for all communicators of the device, some
   * milliseconds later, for the operations of a communicator in the order of their launches. The
   * close of a communicator whose operations have ended waits, a second at most for all listeners,
   * until they are told; {@link #close} is called then.
   *
   * @param nanos the time of the end by {@link System#nanoTime}; on a GPU to some microseconds, so
   *     it may be a little before the launch of a short operation
   */
  default void ended(Operation operation, long nanos) {
    ended(operation);
  }

  /**
   * Receives an operation that has ended, as {@link #ended(Operation, long)}. Do not take the time
   * here: on a GPU this is called later than the end.
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

    /** The slot was passed to the network to be sent, or to be received into. */
    POSTED,

    /** The data have arrived. If they are in a GPU's memory, the flush follows. */
    RECEIVED,

    /** A kernel may fill the sender's slot again, or read the receiver's. */
    DONE
  }

  /**
   * A step of a connection over a network: one slot of it, sent or received by a proxy. It does not
   * name an operation, because proxies do not know operations. The steps of a communicator that
   * shares its parent's connections are the parent's.
   *
   * @param rank whose data are sent or received; another rank than this one if this rank forwards
   *     its data (PXN)
   * @param peer the rank at the other end
   * @param connection 0 for the connection of operations; 1 for that of puts and signals
   * @param channel of the connection
   * @param sends true for a send, false for a receive
   * @param number among the steps of the channel in this direction, from 0
   * @param bytes of its data; 0 if they have not arrived
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
   * Receives the new state of a step; called only with {@link #PROXY_STEPS}, by the communicator's
   * proxy thread or by a waiting kernel of the host device.
   */
  default void stepped(ProxyStep step) {}

  /**
   * Called when the communicator is closed. Operations in progress at this time may still be
   * reported.
   */
  @Override
  default void close() {}
}
