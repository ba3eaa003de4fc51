package org.nccl4j.api.plan.algorithm;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Optional;
import org.nccl4j.api.plan.cost.AlgorithmChoice;
import org.nccl4j.api.plan.cost.CommunicatorProfile;
import org.nccl4j.api.plan.cost.CostModel;
import org.nccl4j.api.plan.cost.TopologyCostModelTest;
import org.nccl4j.api.settings.AlgorithmFilter;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.RedOp;
import org.nccl4j.operation.Operation;

/** Compares choices by some costs with the best ones by measured times. */
public final class ChosenTimes {
  private ChosenTimes() {}

  /** Facts about GPUs of a model in one machine with NVLink. */
  public static CommunicatorProfile profile(String model, int nRanks) {
    return new CommunicatorProfile(nRanks, Device.Kind.CUDA, model, true, true)
        .with(Optional.of(TopologyCostModelTest.topology(1, nRanks, 90, 18)));
  }

  /** The choice for float32 sums of buffers in windows. */
  public static AlgorithmChoice choose(CostModel costs, Operation operation, long bytes) {
    BufferReach windows =
        new BufferReach(
            BufferReach.By.PEERS,
            BufferReach.By.PEERS,
            /* overlaps= */ false,
            /* askew= */ false,
            /* covered= */ false);
    return new AlgorithmSelector(costs, AlgorithmFilter.ALL)
        .choose(operation, bytes, DataType.FLOAT32, RedOp.SUM, windows);
  }

  /**
   * The geometric mean of measured times of the choices by some costs, in terms of the least
   * measured times, from 1 KiB to 512 MiB. Fails if one is not less than most times the least.
   */
  public static double meanOfLeast(
      CostModel costs, CostModel measured, List<Operation> operations, double most) {
    double logs = 0;
    int cells = 0;
    for (Operation operation : operations) {
      for (long bytes = 1 << 10; bytes <= 1L << 29; bytes *= 2) {
        AlgorithmChoice taken = choose(costs, operation, bytes);
        double time = measured.microseconds(operation, taken.algorithm(), taken.protocol(), bytes);
        double least = choose(measured, operation, bytes).microseconds();
        assertTrue(time < most * least, operation + " of " + bytes + " by " + taken);
        logs += Math.log(time / least);
        cells++;
      }
    }
    return Math.exp(logs / cells);
  }
}
