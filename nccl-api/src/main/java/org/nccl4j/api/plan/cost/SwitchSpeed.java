package org.nccl4j.api.plan.cost;

/**
 * The measured speed of a switch's multicast. A speed that was measured before the communicator
 * chose its first algorithm replaces the predicted one. A speed that was measured later only lowers
 * it: so an operation that was planned before the measurement has the algorithm that it would have
 * after it, on all ranks.
 *
 * @param gigabytes per second that the links of a GPU carry in each direction
 * @param isEarly whether it was known before the first choice
 */
public record SwitchSpeed(double gigabytes, boolean isEarly) {
  /** Returns the speed to count with where another one is predicted. */
  double over(double predicted) {
    return isEarly ? gigabytes : Math.min(predicted, gigabytes);
  }
}
