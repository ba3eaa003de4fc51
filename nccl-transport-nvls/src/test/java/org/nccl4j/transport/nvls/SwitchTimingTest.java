package org.nccl4j.transport.nvls;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.multicast.MulticastProvider.Exchange;
import org.nccl4j.device.kernel.KernelDevice;
import org.nccl4j.device.kernel.KernelDevice.MulticastRanges;
import org.nccl4j.device.kernel.NvlsLayout;
import org.nccl4j.device.symmetric.MulticastMemory;

/** The measurement of a multicast object, with a device that moves nothing and another rank. */
class SwitchTimingTest {
  private static final NvlsLayout LAYOUT = new NvlsLayout(2, 3, 1024);
  private final List<String> moved = new ArrayList<>();

  /**
   * A device that takes some microseconds for a round.
   *
   * @param waits of the GPU for other kernels, by launch; the last one repeats
   */
  private KernelDevice device(double microseconds, double... waits) {
    return (KernelDevice)
        Proxy.newProxyInstance(
            SwitchTimingTest.class.getClassLoader(),
            new Class<?>[] {KernelDevice.class},
            (proxy, method, arguments) -> {
              MulticastRanges ranges = (MulticastRanges) arguments[1];
              int rounds = (int) arguments[2];
              moved.add(rounds + " rounds of " + ranges);
              return waits[Math.min(moved.size(), waits.length) - 1] + rounds * microseconds;
            });
  }

  /** Another rank gives the same answers but for the time. */
  private static Exchange with(String other) {
    return new Exchange() {
      @Override
      public List<byte[]> allGather(byte[] mine) {
        return List.of(mine, other.getBytes(StandardCharsets.UTF_8));
      }

      @Override
      public long endNanos() {
        return Long.MAX_VALUE;
      }
    };
  }

  private SwitchTiming timing(int head, double microseconds, double... waits) {
    return new SwitchTiming(
        device(microseconds, waits),
        new MulticastMemory(/* emulated= */ false, List.of()),
        LAYOUT,
        head);
  }

  /** The speed of rounds of one head's 3 x 8 KiB: two heads' operands and one part of the sums. */
  private static double gigabytes(double microseconds) {
    return 3 * 3 * 8192 / (microseconds * 1e3);
  }

  /** Rounds that take 5 ms by the slowest rank's first one; then the slowest rank's time counts. */
  @Test
  void theSlowestRankCounts() throws Exception {
    double gigabytes = timing(1, 10, 0).run(new CollectiveSteps(with("+100")));
    String ranges =
        " rounds of MulticastRanges[from=%d, to=%d, blocks=3, stride=12288, bytes=8192]"
            .formatted(LAYOUT.reduce(1), LAYOUT.broadcast(1));
    // The other rank's first round takes 100 us, and so do all of its rounds: it waits.
    assertEquals(
        Stream.of(1, 50, 612).flatMap(r -> Stream.of(r, r, r)).map(r -> r + ranges).toList(),
        moved);
    assertEquals(gigabytes((6120 - 100) / 611.0), gigabytes, 1e-9);
  }

  /** As long as two rounds of 480 us, in every launch. */
  @Test
  void aBusyGpuIsNotASlowSwitch() throws Exception {
    double gigabytes = timing(0, 480, 1000).run(new CollectiveSteps(with("+0")));
    assertEquals(gigabytes(480), gigabytes, 1e-9);
  }

  /** Other kernels disturb two of three launches of each length. */
  @Test
  void theFastestOfSeveralLaunchesCounts() throws Exception {
    double gigabytes =
        timing(0, 480, 9000, 0, 700, 20_000, 3000, 0).run(new CollectiveSteps(with("+0")));
    assertEquals(gigabytes(480), gigabytes, 1e-9);
  }

  /** Then the time of the whole launch is all that is known. */
  @Test
  void aTimeThatDoesNotGrowCountsWhole() throws Exception {
    double gigabytes = timing(0, 0, 500).run(new CollectiveSteps(with("+0")));
    assertEquals(gigabytes(500 / 10.0), gigabytes, 1e-9);
  }

  @Test
  void aRankThatIsNoHeadMovesNothing() throws Exception {
    timing(-1, 10, 0).run(new CollectiveSteps(with("+100")));
    assertEquals(List.of(), moved);
  }

  @Test
  void afterAFailureAllGiveUp() {
    CollectiveSteps.Refused refused =
        assertThrows(
            CollectiveSteps.Refused.class,
            () -> timing(0, 10, 0).run(new CollectiveSteps(with("-the GPU is busy"))));
    assertEquals(
        "rank 1 cannot try the speed of its multicast object: the GPU is busy",
        refused.getMessage());
  }
}
