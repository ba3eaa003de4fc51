package org.nccl4j.transport.nvls;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
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

  /** A device that takes some microseconds for a round. */
  private KernelDevice device(double microseconds) {
    return (KernelDevice)
        Proxy.newProxyInstance(
            SwitchTimingTest.class.getClassLoader(),
            new Class<?>[] {KernelDevice.class},
            (proxy, method, arguments) -> {
              MulticastRanges ranges = (MulticastRanges) arguments[1];
              int rounds = (int) arguments[2];
              moved.add(rounds + " rounds of " + ranges);
              return rounds * microseconds;
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

  private SwitchTiming timing(double microseconds, int head) {
    return new SwitchTiming(
        device(microseconds), new MulticastMemory(/* emulated= */ false, List.of()), LAYOUT, head);
  }

  /** Rounds that take 5 ms by the slowest rank's first one; then the slowest rank's time counts. */
  @Test
  void theSlowestRankCounts() throws Exception {
    double gigabytes = timing(10, 1).run(new CollectiveSteps(with("+100")));
    String ranges =
        " rounds of MulticastRanges[from=%d, to=%d, blocks=3, stride=12288, bytes=8192]"
            .formatted(LAYOUT.reduce(1), LAYOUT.broadcast(1));
    assertEquals(List.of(1 + ranges, 50 + ranges), moved);
    // Two heads' operands and one part of the sums, in 50 rounds of 3 x 8 KiB and 500 us.
    assertEquals(3 * 50 * 3 * 8192 / 500e3, gigabytes, 1e-6);
  }

  @Test
  void aRankThatIsNoHeadMovesNothing() throws Exception {
    timing(10, -1).run(new CollectiveSteps(with("+100")));
    assertEquals(List.of(), moved);
  }

  @Test
  void afterAFailureAllGiveUp() {
    CollectiveSteps.Refused refused =
        assertThrows(
            CollectiveSteps.Refused.class,
            () -> timing(10, 0).run(new CollectiveSteps(with("-the GPU is busy"))));
    assertEquals(
        "rank 1 cannot try the speed of its multicast object: the GPU is busy",
        refused.getMessage());
  }
}
