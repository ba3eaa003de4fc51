package org.nccl4j.transport.nvls;

import java.util.List;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.kernel.KernelDevice;
import org.nccl4j.device.kernel.KernelDevice.MulticastRanges;
import org.nccl4j.device.kernel.NvlsLayout;
import org.nccl4j.device.symmetric.MulticastMemory;

/**
 * The measurement of a multicast object before its first use. All heads load the slots of their
 * reduce connections combined and store the sums into the slots of their broadcast connections at
 * the same time, as in an all-reduce, with kernels that wait for nobody. The slots hold zeros
 * before and after.
 *
 * @param device of this member
 * @param all members' memories
 * @param head the number of this member among the heads, or -1
 */
record SwitchTiming(KernelDevice device, MulticastMemory all, NvlsLayout layout, int head) {
  /** The time that a measurement should take: ranks begin apart by far less. */
  private static final double MICROSECONDS = 5000;

  private static final int MOST_ROUNDS = 1000;

  /**
   * Takes the steps of the measurement with all other ranks.
   *
   * @return GB/s that the links of each GPU carry in each direction; the same on all ranks
   * @throws CollectiveSteps.Refused the same on all ranks, with the first rank that could not
   */
  double run(CollectiveSteps steps) throws CollectiveSteps.Refused {
    double once = slowest(steps, "try the speed of its multicast object", 1);
    int rounds = (int) Math.max(1, Math.min(MOST_ROUNDS, MICROSECONDS / Math.max(once, 1e-3)));
    double time = slowest(steps, "measure the speed of its multicast object", rounds);
    // All heads' operands and its own sums go out; the other way round on the way in.
    double carried = (layout.nHeads() + 1.0) * rounds * ranges(0).total();
    return carried / (Math.max(time, 1e-3) * 1e3);
  }

  private double slowest(CollectiveSteps steps, String what, int rounds)
      throws CollectiveSteps.Refused {
    List<String> times =
        steps.take(
            what,
            () -> Double.toString(head < 0 ? 0 : device.moveThroughAll(all, ranges(head), rounds)));
    return times.stream().mapToDouble(Double::parseDouble).max().orElseThrow();
  }

  private MulticastRanges ranges(int of) {
    return new MulticastRanges(
        layout.reduce(of),
        layout.broadcast(of),
        layout.nChannels(),
        layout.connectionBytes(),
        ConnectionLayout.STEPS * layout.chunkBytes());
  }
}
