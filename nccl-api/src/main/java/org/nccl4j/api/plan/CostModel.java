package org.nccl4j.api.plan;

import java.util.List;
import org.nccl4j.device.kernel.Algorithm;
import org.nccl4j.device.kernel.Collective;
import org.nccl4j.device.kernel.Protocol;

/** Predicts how long each way to do a collective takes on a kind of device. */
interface CostModel {
  /** The algorithms that the device has for a collective. */
  List<Algorithm> algorithms(Collective collective);

  /** The protocols that the device has. */
  List<Protocol> protocols();

  /**
   * Predicted microseconds.
   *
   * @param bytes of the whole data: what each rank has in all-reduce, broadcast and reduce; all
   *     ranks' parts together in all-gather and reduce-scatter
   */
  double microseconds(Collective collective, Algorithm algorithm, Protocol protocol, long bytes);

  /** Where the figures come from, as a sentence. */
  String source();
}
