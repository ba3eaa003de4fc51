package org.nccl4j.transport.net.socket.link;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.Random;
import org.junit.jupiter.api.Test;

/** Parts of messages for lanes with shares, over random ones. */
class LaneSharesTest {
  private static final int ONE = 1 << 16;

  private static int[] random(Random random, int lanes) {
    return random
        .ints(lanes, 1, 9)
        .map(eighths -> eighths * ONE / (1 + random.nextInt(3)))
        .toArray();
  }

  @Test
  void partsAreAWholeMessageAndTheSameAtBothEnds() {
    for (long seed = 0; seed < 50; seed++) {
      Random random = new Random(seed);
      int[] shares = random(random, 1 + random.nextInt(8));
      LaneShares sender = new LaneShares(shares);
      LaneShares receiver = new LaneShares(shares);
      for (int message = 0; message < 200; message++) {
        int bytes = random.nextInt(1 << 10 + random.nextInt(13));
        int[] parts = sender.cut(bytes);
        assertEquals(bytes, Arrays.stream(parts).sum(), "seed " + seed);
        assertArrayEquals(parts, receiver.cut(bytes), "seed " + seed);
      }
    }
  }

  /** No lane is ever further than some pieces from its share, however small the messages are. */
  @Test
  void lanesCarryBytesByTheirShares() {
    for (long seed = 0; seed < 50; seed++) {
      Random random = new Random(seed);
      int[] shares = random(random, 2 + random.nextInt(6));
      double all = Arrays.stream(shares).asDoubleStream().sum();
      LaneShares cutting = new LaneShares(shares);
      double[] carried = new double[shares.length];
      double total = 0;
      for (int message = 0; message < 2000; message++) {
        int bytes = 1 + random.nextInt(1 << 20);
        int[] parts = cutting.cut(bytes);
        total += bytes;
        for (int lane = 0; lane < shares.length; lane++) {
          carried[lane] += parts[lane];
          double off = Math.abs(carried[lane] - total * shares[lane] / all);
          assertTrue(off <= shares.length * DataSockets.LEAST_PART, "seed " + seed + ": " + off);
        }
      }
    }
  }

  @Test
  void aLargeMessageIsCutByTheShares() {
    LaneShares cutting = new LaneShares(new int[] {8 * ONE, 2 * ONE});
    int bytes = 64 << 20;
    int[] parts = cutting.cut(bytes);
    assertEquals(0.8 * bytes, parts[0], bytes / 64.0);
    assertEquals(bytes, parts[0] + parts[1]);
  }

  /** Sums do not overflow after exabytes. */
  @Test
  void thatGoesOnForever() {
    LaneShares cutting = new LaneShares(new int[] {8 * ONE, 3 * ONE});
    long first = 0;
    int messages = 100_000;
    for (int message = 0; message < messages; message++) {
      first += cutting.cut(1 << 29)[0];
    }
    assertEquals(8 / 11.0, (double) first / messages / (1 << 29), 0.001);
  }
}
