package org.nccl4j.device.cuda.stream;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class VirtualThreadsTest {
  @Test
  void aPlatformThreadIsNone() {
    assertFalse(VirtualThreads.isCurrent());
  }

  /** As far as this Java has some. */
  @Test
  void aVirtualThreadIsOne() throws Exception {
    CompletableFuture<Boolean> virtual = new CompletableFuture<>();
    Runnable task = () -> virtual.complete(VirtualThreads.isCurrent());
    boolean has = Runtime.version().feature() >= 21;
    if (has) {
      Thread.class.getMethod("startVirtualThread", Runnable.class).invoke(null, task);
    } else {
      task.run();
    }
    assertEquals(has, virtual.get(300, TimeUnit.SECONDS));
  }
}
