package org.nccl4j.api.plan.algorithm;

import java.util.List;
import java.util.Optional;
import org.nccl4j.api.plan.cost.AlgorithmChoice;
import org.nccl4j.api.plan.cost.CommunicatorProfile;
import org.nccl4j.api.plan.cost.NvlsCostModel;
import org.nccl4j.api.plan.cost.SwitchSpeed;
import org.nccl4j.api.settings.AlgorithmFilter;
import org.nccl4j.device.DataType;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.kernel.Nvls;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;

/**
 * Compares NVLS through a switch with the other algorithms.
 *
 * @param facts about all ranks
 * @param nvls the place of a rank
 * @param filter what the settings allow
 */
public record SwitchComparison(CommunicatorProfile facts, Nvls nvls, AlgorithmFilter filter) {
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

  /**
   * Returns why NVLS at a measured speed is of no use to a communicator, as a clause: every
   * operation is faster by another algorithm. "" if some are faster by NVLS.
   */
  public String slowness(SwitchSpeed speed) {
    AlgorithmSelector with = new AlgorithmSelector(facts.costs(nvls, Optional.of(speed)), filter);
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
            .costs(nvls, Optional.of(speed))
            .microseconds(Operation.ALL_REDUCE, Algorithm.NVLS, best.protocol(), NAMED_BYTES);
    return "it is slower than the other algorithms: all_reduce of %d MiB takes %.0f us at the %.0f GB/s that were measured, and %.0f us by %s"
        .formatted(NAMED_BYTES >> 20, time, speed.gigabytes(), best.microseconds(), best);
  }

  private static boolean isBySwitch(AlgorithmChoice choice) {
    return NvlsCostModel.isNvls(choice.algorithm()) || choice.algorithm().isMulticast();
  }
}
