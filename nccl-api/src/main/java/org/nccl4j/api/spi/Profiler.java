package org.nccl4j.api.spi;

/**
 * Is told of the operations of one rank of a communicator. Its methods are called on the threads
 * that launch and that run operations, so they are short and do not call operations.
 */
public interface Profiler extends AutoCloseable {
  /** In the mask: operations as they are launched. */
  int LAUNCHES = 1;

  /** In the mask: operations as they end in their streams. */
  int ENDS = 2;

  /** What it wants to be told, as a sum of the above; asked once. */
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

  /** It has been launched; only with {@link #LAUNCHES}. */
  default void launched(Operation operation) {}

  /**
   * All of its stream up to it has ended; only with {@link #ENDS}, and not of what was captured
   * into a graph.
   */
  default void ended(Operation operation) {}

  /** The communicator is closed. */
  @Override
  default void close() {}
}
