package org.nccl4j.transport.net.failover;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;

import java.time.Duration;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

@Timeout(600)
class LinkWatchTest {
  private final BlockingQueue<String> seen = new LinkedBlockingQueue<>();

  private String next() throws InterruptedException {
    return seen.poll(300, TimeUnit.SECONDS);
  }

  /** Always under way, so that it is looked at again and again. */
  private final class Link implements LinkWatch.Watched {
    private final String name;
    private final Runnable fault;

    Link(String name, Runnable fault) {
      this.name = name;
      this.fault = fault;
    }

    @Override
    public boolean look() {
      fault.run();
      seen.add(name);
      return false;
    }

    @Override
    public void lookFailed(Throwable e) {
      seen.add(e.getMessage() + " failed");
    }

    @Override
    public boolean isUnderWay() {
      return true;
    }
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void anErrorOfOneLinkDoesNotEndTheWatchOfOthers(boolean ofTheProcess)
      throws InterruptedException {
    LinkWatch watch = new LinkWatch("nccl4j-test", Duration.ofSeconds(1), Duration.ZERO, () -> {});
    try {
      watch.add(new Link("bad", () -> fail("bad", ofTheProcess)));
      assertEquals("bad failed", next());
      watch.add(new Link("good", () -> {}));
      for (int looks = 0; looks < 3; looks++) {
        assertEquals("good", next());
      }
    } finally {
      watch.close();
    }
  }

  /** An error of the process is one such as a lack of memory. */
  private static void fail(String name, boolean ofTheProcess) {
    if (ofTheProcess) {
      throw new OutOfMemoryError(name);
    }
    throw new IllegalStateException(name);
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void anErrorOfThePortDoesNotEndTheWatch(boolean ofTheProcess) throws InterruptedException {
    LinkWatch watch =
        new LinkWatch(
            "nccl4j-test",
            Duration.ofSeconds(1),
            Duration.ofMillis(1),
            () -> {
              seen.add("port");
              fail("port", ofTheProcess);
            });
    try {
      watch.add(new Link("good", () -> {}));
      int ports = 0;
      while (ports < 2) {
        String next = next();
        assertNotNull(next);
        ports += next.equals("port") ? 1 : 0;
      }
    } finally {
      watch.close();
    }
  }
}
