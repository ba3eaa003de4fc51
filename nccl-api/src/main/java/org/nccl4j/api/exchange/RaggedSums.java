package org.nccl4j.api.exchange;

import java.util.stream.IntStream;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.kernel.RaggedKernels;
import org.nccl4j.operation.Operation;

/**
 * Reduce-scatter by counts in device memory where no kernel takes them: the host reads the counts,
 * gets those of all ranks, and calls the reduce-scatter with counts from the host.
 *
 * @param reduction that one
 */
public record RaggedSums(
    RaggedKernels.Sizes sizes,
    int rank,
    ExchangeChecks checks,
    RaggedCounts counts,
    RaggedResults results,
    Reduction reduction) {
  /** A reduce-scatter with counts from the host. */
  public interface Reduction {
    /**
     * Launches it.
     *
     * @param counts elements of the type for each rank
     */
    void call(
        DeviceMemory send,
        DeviceMemory recv,
        long[] counts,
        RaggedReduction how,
        DeviceStream stream);
  }

  /**
   * Combines the parts of all ranks. The caller has checked the arguments.
   *
   * @param given elements of each rank's part, in device memory
   * @param received gets this rank's part of the sums
   */
  public void reduceScatter(
      DeviceMemory send,
      DeviceMemory given,
      DeviceMemory received,
      RaggedReduction how,
      DeviceStream stream) {
    counts.exchange(
        checks.where(Operation.RAGGED_REDUCE_SCATTER.method()),
        RaggedCounts.Call.REDUCE_SCATTER,
        how.shape(send.device().kind()),
        given,
        send.size() / sizes.elementBytes(),
        stream);
    long mine = counts.count(rank, rank);
    results.write(sizes, peer -> mine, peer -> peer < sizes.nRanks() ? 0 : mine);
    long values = sizes.elementBytes() / how.type().bytes();
    long[] ofRanks =
        IntStream.range(0, sizes.nRanks())
            .mapToLong(target -> counts.count(rank, target) * values)
            .toArray();
    reduction.call(send, received, ofRanks, how, stream);
  }
}
