package org.nccl4j.transport.p2p;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.wire.FdExchange;
import org.nccl4j.api.wire.TeardownBarrier;

/** The time at which memory is freed that ranks of other processes have opened. */
class CudaIpcTeardownTest {
  private static final Duration LONG = Duration.ofMinutes(5);
  private static final byte[] SECRET = {1, 2, 3};

  private final FdExchange first = FdExchange.open(SECRET);
  private final FdExchange second = FdExchange.open(SECRET);
  private final CountDownLatch freed = new CountDownLatch(1);

  private static void end(
      FdExchange mine, int rank, String box, Duration here, Duration patience, Runnable free) {
    Map<Integer, String> others = Map.of(1 - rank, box);
    CudaIpcTeardown teardown = new CudaIpcTeardown(mine, rank, others, others, free);
    TeardownBarrier.pass(teardown, "test-teardown", here, patience);
  }

  private void assertFreed() throws InterruptedException {
    assertTrue(freed.await(300, TimeUnit.SECONDS));
  }

  @Test
  void whenTheOtherHasSaidSo() throws Exception {
    String box = first.path();
    end(first, 0, second.path(), Duration.ZERO, LONG, freed::countDown);
    assertEquals(1, freed.getCount(), "the other has it open");
    CountDownLatch others = new CountDownLatch(1);
    end(second, 1, box, LONG, LONG, others::countDown);
    assertEquals(0, others.getCount(), "the first had told it before");
    assertFreed();
  }

  @Test
  void whenTheOtherIsGone() throws Exception {
    String box = second.path();
    second.close();
    end(first, 0, box, LONG, LONG, freed::countDown);
    assertFreed();
  }

  @Test
  void whenPatienceEnds() throws Exception {
    end(first, 0, second.path(), Duration.ZERO, Duration.ofMillis(20), freed::countDown);
    assertFreed();
    second.close();
  }
}
