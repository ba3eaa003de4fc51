package org.nccl4j.api.plan.cost;

import java.util.List;
import org.nccl4j.device.DataType;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/**
 * The abilities of a kind of device, the predicted time of each choice, and the best division of
 * the work. All ranks of a communicator must have equal models, because each rank decides for
 * itself.
 */
public interface CostModel {
  /**
   * Times from here on: the device has the algorithm, but it is chosen only if the user names it.
   */
  double ONLY_WHERE_ASKED = 1e12;

  /** The prediction in a time, without the mark of one that is taken only where it is asked for. */
  static double predicted(double microseconds) {
    return microseconds < ONLY_WHERE_ASKED ? microseconds : microseconds - ONLY_WHERE_ASKED;
  }

  /** The algorithms that the device has for an operation, over connections and between windows. */
  List<Algorithm> algorithms(Operation operation);

  /** The algorithms over connections. */
  default List<Algorithm> overConnections(Operation operation) {
    return algorithms(operation).stream().filter(a -> !a.isBetweenWindows()).toList();
  }

  /**
   * Why these ranks lack an algorithm that ranks of several hosts may have for an operation, as a
   * line to read; "" if they lack none.
   */
  default String lacks(Operation operation) {
    return "";
  }

  /** The algorithms between windows. */
  default List<Algorithm> betweenWindows(Operation operation) {
    return algorithms(operation).stream().filter(Algorithm::isBetweenWindows).toList();
  }

  /** True if an algorithm can do an operation of a type. */
  default boolean has(Algorithm algorithm, Operation operation, DataType type, RedOp op) {
    return true;
  }

  /** True if an algorithm can hand steps over by a protocol. */
  default boolean has(Algorithm algorithm, Protocol protocol) {
    return algorithm.has(protocol);
  }

  /** True if an algorithm is chosen among ranks of one host too without being named. */
  default boolean suitsOneHost(Operation operation, Algorithm algorithm) {
    return !algorithm.isBetweenHosts(operation);
  }

  /** The protocols that the device has. */
  List<Protocol> protocols();

  /**
   * Predicted microseconds; infinite where the device does not have the algorithm for so many
   * bytes.
   *
   * @param algorithm of the operation, or {@link Algorithm#PAIRWISE} for one that consists of sends
   *     and receives
   * @param protocol Simple for an operation that consists of sends and receives, whose messages
   *     choose their own
   * @param bytes of the whole data: what each rank has in all-reduce, broadcast and reduce; all
   *     ranks' parts together where a buffer holds a part of each rank
   */
  double microseconds(Operation operation, Algorithm algorithm, Protocol protocol, long bytes);

  /**
   * Predicted microseconds of messages that each rank sends to others at once, and gets from
   * others.
   *
   * @param nRanks ranks
   * @param others messages of a rank
   * @param bytes of each
   */
  default double messages(int nRanks, int others, Protocol protocol, long bytes) {
    return others * ringStep(nRanks, protocol, bytes);
  }

  /** Returns the origin of the figures of {@link #messages}, in a few words. */
  default String messageSource(Protocol protocol) {
    return ringSource(protocol);
  }

  /** Predicted microseconds of a step of a ring, in which each rank sends and gets some bytes. */
  default double ringStep(int nRanks, Protocol protocol, long bytes) {
    return microseconds(Operation.ALL_GATHER, Algorithm.RING, protocol, bytes * nRanks)
        / Math.max(1, nRanks - 1);
  }

  /** Returns the origin of the figures of {@link #ringStep}, in a few words. */
  default String ringSource(Protocol protocol) {
    return "a step of a ring: " + source(Operation.ALL_GATHER, Algorithm.RING, protocol);
  }

  /**
   * Channels or blocks that should share an operation; 0 leaves it to the device.
   *
   * @param bytes of the whole data, as in {@link #microseconds}
   */
  int channels(Operation operation, AlgorithmChoice choice, long bytes);

  /**
   * The fewest channels or blocks that carry an operation within three per cent of its best time,
   * as measured; 0 where that was not measured.
   *
   * @param bytes of the whole data, as in {@link #microseconds}
   */
  default int fewestChannels(Operation operation, AlgorithmChoice choice, long bytes) {
    return 0;
  }

  /**
   * Most bytes of one step of a channel; the device makes it fit its slots.
   *
   * @param bytes of the whole data, as in {@link #microseconds}
   */
  int chunkBytes(ConnectionLayout layout, Operation operation, AlgorithmChoice choice, long bytes);

  /** Returns the protocol of a send of few bytes. */
  default Protocol smallSendProtocol() {
    return Protocol.LL;
  }

  /**
   * Up to how many bytes a send is one of few. Both ends decide by it, so it depends on nothing
   * that they do not both know.
   */
  long smallSendBytes(Operation operation);

  /** Up to how many bytes a larger send takes LL128; beyond it takes Simple. Likewise. */
  default long lineSendBytes(Operation operation) {
    return -1;
  }

  /** GB/s that the links take of what a rank sends to its peers; 0 if the model does not know. */
  default double bandwidth() {
    return 0;
  }

  /**
   * GB/s that the slowest links take of what a rank sends in rings; 0 if the model does not know.
   */
  default double linkGigabytes() {
    return bandwidth();
  }

  /**
   * True if the times between windows may be compared with the times over connections: both are
   * measured, or the ones are modelled on the others.
   */
  default boolean comparesWindows() {
    return false;
  }

  /**
   * True if lines are worth space in every rank's memory before there is a window. Operations on
   * other buffers can then go by them.
   */
  default boolean makesSpaceAhead() {
    return comparesWindows();
  }

  /** True if a time was measured within the limits of blocks that operations have now. */
  default boolean isOfFewBlocks(Operation operation, Algorithm algorithm, Protocol protocol) {
    return false;
  }

  /** Returns the origin of the figures over connections, as a sentence. */
  String source();

  /** Returns the origin of the figures between windows, as a sentence. */
  default String windowSource() {
    return source();
  }

  /** Returns the origin of one algorithm's and protocol's figures, in a few words. */
  String source(Operation operation, Algorithm algorithm, Protocol protocol);
}
