package org.nccl4j.api.bootstrap;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** One thread serves all communicators of the process. */
@Timeout(60)
class EventLoopErrorTest {
  /** It cannot be logged, as where memory is short. */
  private static final class NoMemory extends Error {
    private static final long serialVersionUID = 1L;

    @Override
    public String toString() {
      throw new OutOfMemoryError("a test");
    }
  }

  @Test
  void anErrorThatCannotBeLoggedDoesNotEndIt() throws Exception {
    EventLoop loop = EventLoop.acquire();
    try {
      CountDownLatch later = new CountDownLatch(2);
      loop.execute(
          () -> {
            throw new NoMemory();
          });
      loop.execute(later::countDown);
      loop.execute(() -> loop.after(Duration.ofMillis(1), later::countDown));
      assertTrue(later.await(50, TimeUnit.SECONDS));
    } finally {
      loop.release();
    }
  }
}
