package org.nccl4j.api.bootstrap.connection;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.channels.Pipe;
import java.nio.channels.SelectionKey;
import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** One thread serves all communicators of the process. */
@Timeout(600)
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
  void aConnectionThatFailsAtTheEndIsClosed() throws Exception {
    Pipe pipe = Pipe.open();
    EventLoop.Handler defect =
        new EventLoop.Handler() {
          @Override
          public void ready(SelectionKey key) {}

          @Override
          public boolean isFinishing() {
            throw new NoMemory();
          }
        };
    EventLoop loop = EventLoop.acquire();
    CountDownLatch registered = new CountDownLatch(1);
    loop.execute(
        () -> {
          try {
            loop.register(pipe.source(), SelectionKey.OP_READ, defect);
            registered.countDown();
          } catch (IOException e) {
            throw new AssertionError(e);
          }
        });
    assertTrue(registered.await(300, TimeUnit.SECONDS));
    loop.release();
    while (pipe.source().isOpen()) {
      Thread.onSpinWait(); // until the test's time is over
    }
    pipe.sink().close();
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
      assertTrue(later.await(300, TimeUnit.SECONDS));
    } finally {
      loop.release();
    }
  }
}
