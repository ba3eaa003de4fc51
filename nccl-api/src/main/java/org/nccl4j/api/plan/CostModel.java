package org.nccl4j.api.plan;

import java.util.List;
import org.nccl4j.device.DataType;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.kernel.Algorithm;
import org.nccl4j.device.kernel.ConnectionLayout;
import org.nccl4j.device.kernel.Operation;
import org.nccl4j.device.kernel.Protocol;

/**
 * The abilities of a kind of device, the predicted time of each choice, and the best cut of the
 * work. All ranks of a communicator must have equal models, because each rank decides for itself.
 */
interface CostModel {
  /** The algorithms that the device has for a collective. */
  List<Algorithm> algorithms(Operation operation);

  /** True if an algorithm can do an operation of a type. */
  default boolean has(Algorithm algorithm, Operation operation, DataType type, RedOp op) {
    return true;
  }

  /** True if an algorithm can hand steps over by a protocol. */
  default boolean has(Algorithm algorithm, Protocol protocol) {
    return true;
  }

  /** The protocols that the device has. */
  List<Protocol> protocols();

  /**
   * Predicted microseconds.
   *
   * @param bytes of the whole data: what each rank has in all-reduce, broadcast and reduce; all
   *     ranks' parts together in all-gather and reduce-scatter
   */
  double microseconds(Operation operation, Algorithm algorithm, Protocol protocol, long bytes);

  /**
   * Channels that should share a collective; 0 leaves it to the device.
   *
   * @param bytes of the whole data, as in {@link #microseconds}
   */
  int channels(Operation operation, AlgorithmChoice choice, long bytes);

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

  /** Returns the origin of the figures, as a sentence. */
  String source();

  /** Returns the origin of one algorithm's and protocol's figures, in a few words. */
  String source(Operation operation, Algorithm algorithm, Protocol protocol);
}
