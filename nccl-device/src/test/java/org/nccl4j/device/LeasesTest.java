package org.nccl4j.device;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(600)
class LeasesTest {
  private static final int ROUNDS = 20_000;

  private final AtomicInteger frees = new AtomicInteger();
  private final Leases leases = Leases.freeing(frees::incrementAndGet);

  @Test
  void closeFreesWhatNobodyUses() {
    assertTrue(leases.begin());
    leases.end();
    assertEquals(0, frees.get());
    assertTrue(leases.close());
    assertFalse(leases.close());
    assertEquals(1, frees.get());
    assertTrue(leases.isOver());
    assertFalse(leases.begin());
    assertFalse(leases.extend());
    assertEquals(1, frees.get());
  }

  @Test
  void theLastUserFreesWhatIsClosedMeanwhile() {
    assertTrue(leases.begin());
    assertTrue(leases.begin());
    leases.close();
    assertFalse(leases.isOpen());
    assertFalse(leases.isOver());
    assertFalse(leases.begin(), "a new call");
    assertTrue(leases.extend(), "the launch of a call before");
    leases.end();
    leases.end();
    assertEquals(0, frees.get());
    leases.end();
    assertEquals(1, frees.get());
    assertTrue(leases.isOver());
  }

  /** Two threads use what a third closes: it is freed once, and under no user. */
  @Test
  void closeBesideUsers() throws Exception {
    ExecutorService threads = Executors.newFixedThreadPool(3);
    for (int round = 0; round < ROUNDS; round++) {
      AtomicInteger freed = new AtomicInteger();
      AtomicInteger wrong = new AtomicInteger();
      Leases shared = Leases.freeing(freed::incrementAndGet);
      Callable<Void> user =
          () -> {
            for (int use = 0; use < 4 && shared.begin(); use++) {
              wrong.addAndGet(freed.get());
              shared.end();
            }
            return null;
          };
      Callable<Void> closer =
          () -> {
            shared.close();
            return null;
          };
      for (Future<Void> one :
          threads.invokeAll(List.of(user, closer, user), 60, TimeUnit.SECONDS)) {
        one.get();
      }
      assertEquals(1, freed.get(), "round " + round);
      assertEquals(0, wrong.get(), "round " + round);
    }
    threads.shutdown();
  }
}
