package org.nccl4j.device.cuda.plan;

import java.util.Optional;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/**
 * Rounds of a ring that channels claim, each when it has ended one, instead of having a share each:
 * channels do not keep one pace, and links that some of them leave early carry less. The last
 * rounds are small, so that all channels end together. The same on all ranks, none of which may
 * have a connection that a proxy carries: a step's size is where its round would be.
 *
 * @param whole rounds before the small ones
 * @param smallSlices slices of a chunk in these
 */
record DynamicRingRounds(int whole, int smallSlices) {
  private static final int CHUNK_SLICES = 4; // SimplePrimitives::kSlices

  /** The least number of whole rounds, as an average of the channels. */
  private static final long LEAST = 3;

  /**
   * Empty where channels have shares.
   *
   * @param slice bytes of a step
   * @param nRanks whose chunks an all-reduce's round has
   */
  static Optional<DynamicRingRounds> of(
      CollectiveWork work, long bytes, int channels, int slice, int nRanks) {
    boolean split = work.operation() == Operation.ALL_REDUCE;
    long whole = (long) CHUNK_SLICES * slice * (split ? nRanks : 1);
    if (work.algorithm() != Algorithm.RING
        || work.protocol() != Protocol.SIMPLE
        || channels < KernelLayout.CLAIMING_CHANNELS
        || bytes < LEAST * channels * whole) {
      return Optional.empty();
    }
    // A round of an all-reduce goes round twice, so small ones cost more of it.
    int tail = split ? channels / 3 : channels;
    return Optional.of(new DynamicRingRounds((int) (bytes / whole - tail), split ? 2 : 1));
  }

  /** Into the arguments of a collective. */
  void put(Offheap arguments, long claims) {
    arguments
        .putLong(KernelLayout.CLAIMS, claims)
        .putInt(KernelLayout.WHOLE_ROUNDS, whole)
        .putInt(KernelLayout.SMALL_SLICES, smallSlices);
  }
}
