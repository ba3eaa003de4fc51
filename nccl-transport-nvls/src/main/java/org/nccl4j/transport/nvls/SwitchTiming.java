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
  private static final String LONG = "measure the speed of its multicast object";

  /** The time that the longest launches should take: ranks begin apart by far less. */
  private static final double MICROSECONDS = 5000;

  private static final int MOST_ROUNDS = 1000;

  /** Launches of one length, of which the fastest counts: others were disturbed. */
  private static final int LAUNCHES = 3;

  /**
   * Takes the steps of the measurement with all other ranks. The time of a round is the difference
   * between a long and a short launch: both may wait for a GPU that is busy with other kernels. If
   * such a wait has made the long launch too short, it is repeated once with more rounds.
   *
   * @return GB/s that the links of each GPU carry in each direction; the same on all ranks
   * @throws CollectiveSteps.Refused the same on all ranks, with the first rank that could not
   */
  double run(CollectiveSteps steps) throws CollectiveSteps.Refused {
    double once = fastest(steps, "try the speed of its multicast object", 1);
    int rounds = rounds(once);
    double time = fastest(steps, LONG, rounds);
    if (time > once && (time - once) / (rounds - 1) < once / 2) { // most of the first was a wait
      rounds = rounds((time - once) / (rounds - 1));
      time = fastest(steps, LONG, rounds);
    }
    // A time that does not grow counts whole.
    double round = time > once ? (time - once) / (rounds - 1) : time / rounds;
    // All heads' operands and its own sums go out; the other way round on the way in.
    double carried = (layout.nHeads() + 1.0) * ranges(0).total();
    return carried / (round * 1e3);
  }

  private static int rounds(double microseconds) {
    return (int) Math.max(2, Math.min(MOST_ROUNDS, MICROSECONDS / microseconds));
  }

  /** The time of a launch, by the slowest rank. */
  private double fastest(CollectiveSteps steps, String what, int rounds)
      throws CollectiveSteps.Refused {
    double least = Double.POSITIVE_INFINITY;
    for (int launch = 0; launch < LAUNCHES; launch++) {
      least = Math.min(least, slowest(steps, what, rounds));
    }
    return Math.max(least, 1e-3);
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
