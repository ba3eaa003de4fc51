package org.nccl4j.api.observe.span;

/**
 * An operation of one rank, from the begin of its launch until its stream has ended it, as an
 * observer of the job gets it.
 *
 * @param communicator the same number on all ranks of a communicator
 * @param name of the communicator
 * @param operation its name, such as "all_reduce"
 * @param type of the elements
 * @param bytes of so many elements as in the call
 * @param root or peer
 * @param number of the collective, from 1, the same on all ranks; of a send, how many there were
 *     before
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
    String operation,
    String type,
    long bytes,
    int root,
    long number,
    long every,
    long beginNanos,
    long readyNanos,
    long endNanos) {

  /** The same operation at other times. */
  OperationSpan at(long begin, long ready, long end) {
    return new OperationSpan(
        communicator, name, rank, operation, type, bytes, root, number, every, begin, ready, end);
  }
}
