package org.nccl4j.device.support;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** Values of threads, more than there are places for those used last. */
class PerThreadTest {
  private static final int THREADS = 40;

  private final PerThread<Object> values = new PerThread<>(Object::new);

  @Test
  void eachThreadKeepsAValueOfItsOwn() throws Exception {
    CyclicBarrier together = new CyclicBarrier(THREADS);
    List<FutureTask<Object>> tasks = new ArrayList<>();
    for (int t = 0; t < THREADS; t++) {
      FutureTask<Object> task =
          new FutureTask<>(
              () -> {
                assertNull(values.getIfMade());
                Object mine = values.get();
                for (int round = 0; round < 100; round++) {
                  together.await(300, TimeUnit.SECONDS);
                  assertSame(mine, values.get());
                  assertSame(mine, values.getIfMade());
                }
                return mine;
              });
      tasks.add(task);
      new Thread(task).start();
    }
    HashSet<Object> all = new HashSet<>();
    for (FutureTask<Object> task : tasks) {
      all.add(task.get(300, TimeUnit.SECONDS));
    }
    assertEquals(THREADS, all.size());
    assertNull(values.getIfMade());
  }
}
