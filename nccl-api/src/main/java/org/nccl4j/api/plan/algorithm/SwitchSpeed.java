package org.nccl4j.api.plan.algorithm;

import java.util.List;
import java.util.Optional;
import org.nccl4j.api.settings.AlgorithmFilter;
import org.nccl4j.device.DataType;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.kernel.Nvls;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;

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
  private static final long LEAST_BYTES = 1 << 10;
  private static final long MOST_BYTES = 4L << 30;

  /** The size that the reason of a refusal names. */
  private static final long NAMED_BYTES = 64 << 20;

  private static final BufferReach IN_WINDOWS =
      new BufferReach(
          BufferReach.By.MULTICAST,
          BufferReach.By.MULTICAST,
          /* overlaps= */ false,
          /* askew= */ false,
          /* covered= */ false);

  /** Returns the speed to count with where another one is predicted. */
  double over(double predicted) {
    return isEarly ? gigabytes : Math.min(predicted, gigabytes);
  }

  /**
   * Returns why NVLS at this speed is of no use to a communicator, as a clause: every operation is
   * faster by another algorithm. "" if some are faster by NVLS.
   *
   * @param nvls the place of a rank
   */
  public String slowness(CommunicatorProfile facts, Nvls nvls, AlgorithmFilter filter) {
    AlgorithmSelector with = new AlgorithmSelector(facts.costs(nvls, Optional.of(this)), filter);
    for (Operation operation :
        List.of(Operation.ALL_REDUCE, Operation.ALL_GATHER, Operation.REDUCE_SCATTER)) {
      for (long bytes = LEAST_BYTES; bytes <= MOST_BYTES; bytes *= 2) {
        if (isBySwitch(with.choose(operation, bytes, DataType.FLOAT32, RedOp.SUM))
            || isBySwitch(with.choose(operation, bytes, DataType.FLOAT32, RedOp.SUM, IN_WINDOWS))) {
          return "";
        }
      }
    }
    AlgorithmChoice best =
        with.choose(Operation.ALL_REDUCE, NAMED_BYTES, DataType.FLOAT32, RedOp.SUM);
    double time =
        facts
            .costs(nvls, Optional.of(this))
            .microseconds(Operation.ALL_REDUCE, Algorithm.NVLS, best.protocol(), NAMED_BYTES);
    return "it is slower than the other algorithms: all_reduce of %d MiB takes %.0f us at the %.0f GB/s that were measured, and %.0f us by %s"
        .formatted(NAMED_BYTES >> 20, time, gigabytes, best.microseconds(), best);
  }

  private static boolean isBySwitch(AlgorithmChoice choice) {
    return NvlsCostModel.isNvls(choice.algorithm()) || choice.algorithm().isMulticast();
  }
}
