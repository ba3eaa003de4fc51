package org.nccl4j.transport.p2p;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.shm.FdMailbox;

/** When memory is freed that ranks of other processes have opened. */
class IpcFarewellTest {
  private static final Duration LONG = Duration.ofMinutes(5);
  private static final byte[] SECRET = {1, 2, 3};

  private final FdMailbox first = FdMailbox.open(SECRET);
  private final FdMailbox second = FdMailbox.open(SECRET);
  private final CountDownLatch freed = new CountDownLatch(1);

  private IpcFarewell of(FdMailbox mine, int rank, int other, Path box) {
    return new IpcFarewell(mine, rank, Map.of(other, box), Map.of(other, box));
  }

  private void assertFreed() throws InterruptedException {
    assertTrue(freed.await(60, TimeUnit.SECONDS));
  }

  @Test
  void whenTheOtherHasSaidSo() throws Exception {
    Path box = first.path();
    of(first, 0, 1, second.path()).end(Duration.ZERO, LONG, freed::countDown);
    assertEquals(1, freed.getCount(), "the other has it open");
    CountDownLatch others = new CountDownLatch(1);
    of(second, 1, 0, box).end(LONG, LONG, others::countDown);
    assertEquals(0, others.getCount(), "the first had told it before");
    assertFreed();
  }

  @Test
  void whenTheOtherIsGone() throws Exception {
    Path box = second.path();
    second.close();
    of(first, 0, 1, box).end(LONG, LONG, freed::countDown);
    assertFreed();
  }

  @Test
  void whenPatienceEnds() throws Exception {
    of(first, 0, 1, second.path()).end(Duration.ZERO, Duration.ofMillis(20), freed::countDown);
    assertFreed();
    second.close();
  }
}
