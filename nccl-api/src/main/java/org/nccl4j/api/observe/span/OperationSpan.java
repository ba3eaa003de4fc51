package org.nccl4j.api.observe.span;

/**
 * An operation of one rank, from the begin of its launch until its stream has ended it, as an
 * observer of the job gets it. Or something else of the rank that took time: a phase of a creation,
 * a step of a proxy, a moment such as a failure.
 *
 * @param communicator the same number on all ranks of a communicator
 * @param name of the communicator
 * @param row "" for the rank's own, else what sets its other rows apart, such as "creation"
 * @param operation its name, such as "all_reduce"
 * @param type of the elements; "" for what is no operation
 * @param bytes of so many elements as in the call
 * @param root or peer
 * @param number of the collective, from 1, the same on all ranks; of a send, how many there were
 *     before; of a step of a proxy, its number in its channel
 * @param every so many operations of the rank were launched for each that was recorded
 * @param beginNanos since 1970, by the clock of the rank's host
 * @param readyNanos likewise; the end of the rank's operation before, where a span of that may be
 *     missing; 0 if it is unknown
 * @param endNanos likewise
 */
public record OperationSpan(
    long communicator,
    String name,
    int rank,
    String row,
    String operation,
    String type,
    long bytes,
    int root,
    long number,
    long every,
    long beginNanos,
    long readyNanos,
    long endNanos) {

  /**
   * Something that is no operation.
   *
   * @param row as above
   * @param peer or -1
   */
  public static OperationSpan other(
      long communicator, String name, int rank, String row, String what, int peer) {
    return new OperationSpan(
        communicator, name, rank, row, what, "", 0, peer, 0, /* every= */ 1, 0, 0, 0);
  }

  /** True if it lies in another row than the rank's own, which has the operations. */
  boolean isBeside() {
    return !row.isEmpty();
  }

  /** The same with bytes and a number, from a time on by {@link System#nanoTime}. */
  public OperationSpan with(long newBytes, long newNumber, long newBegin) {
    return copy(newBytes, newNumber, newBegin, 0, 0);
  }

  /** The same operation at other times. */
  OperationSpan at(long begin, long ready, long end) {
    return copy(bytes, number, begin, ready, end);
  }

  private OperationSpan copy(long newBytes, long newNumber, long begin, long ready, long end) {
    return new OperationSpan(
        communicator,
        name,
        rank,
        row,
        operation,
        type,
        newBytes,
        root,
        newNumber,
        every,
        begin,
        ready,
        end);
  }
}
