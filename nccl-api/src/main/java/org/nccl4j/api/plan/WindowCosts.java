package org.nccl4j.api.plan;

import org.nccl4j.device.kernel.Algorithm;
import org.nccl4j.device.kernel.Operation;

/**
 * Predicted times of the direct algorithms of a kind of device. All ranks of a communicator must
 * have equal ones, because each rank decides for itself.
 */
interface WindowCosts {
  /** From here on: there is the way, and it is not taken unless the user asks for it. */
  double ONLY_WHERE_ASKED = 1e12;

  /**
   * Predicted microseconds, or infinity where the device has no such way for that size.
   *
   * @param bytes of count elements
   */
  double microseconds(Operation operation, Algorithm way, long bytes);

  /**
   * Predicted microseconds of an exchange of all with all through lines of data and flags, or
   * infinity for more bytes than lines take.
   */
  double lines(Operation operation, long bytes);

  /**
   * Predicted microseconds of an operation that is made of sends and receives, through connections.
   */
  double pairwise(Operation operation, long bytes);

  /** Blocks that should share the work; 0 leaves it to the device. */
  int blocks(Operation operation, Algorithm way, long bytes);

  /** True if a way without windows may be taken, so that the space is worth making at once. */
  boolean worksWithoutWindows();

  /** True if they may be compared with those of other ways: measured, not guessed. */
  boolean areMeasured();

  /** Returns the origin of the figures, as a sentence. */
  String source();
}
