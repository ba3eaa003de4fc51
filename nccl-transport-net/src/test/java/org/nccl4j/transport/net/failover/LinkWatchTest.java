package org.nccl4j.transport.net.failover;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;

import java.time.Duration;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(120)
class LinkWatchTest {
  private final BlockingQueue<String> seen = new LinkedBlockingQueue<>();

  /** Always under way, so that it is looked at again and again. */
  private final class Link implements LinkWatch.Watched {
    private final String name;
    private final boolean fails;

    Link(String name, boolean fails) {
      this.name = name;
      this.fails = fails;
    }

    @Override
    public boolean look() {
      if (fails) {
        throw new IllegalStateException(name);
      }
      seen.add(name);
      return false;
    }

    @Override
    public void lookFailed(RuntimeException e) {
      seen.add(e.getMessage() + " failed");
    }

    @Override
    public boolean isUnderWay() {
      return true;
    }
  }

  @Test
  void anErrorOfOneLinkDoesNotEndTheWatchOfOthers() throws InterruptedException {
    LinkWatch watch = new LinkWatch("nccl4j-test", Duration.ofSeconds(1), Duration.ZERO, () -> {});
    try {
      watch.add(new Link("bad", true));
      assertEquals("bad failed", seen.poll(60, TimeUnit.SECONDS));
      watch.add(new Link("good", false));
      for (int looks = 0; looks < 3; looks++) {
        assertEquals("good", seen.poll(60, TimeUnit.SECONDS));
      }
    } finally {
      watch.close();
    }
  }

  @Test
  void anErrorOfThePortDoesNotEndTheWatch() throws InterruptedException {
    LinkWatch watch =
        new LinkWatch(
            "nccl4j-test",
            Duration.ofSeconds(1),
            Duration.ofMillis(1),
            () -> {
              seen.add("port");
              throw new IllegalStateException("port");
            });
    try {
      watch.add(new Link("good", false));
      int ports = 0;
      while (ports < 2) {
        String next = seen.poll(60, TimeUnit.SECONDS);
        assertNotNull(next);
        ports += next.equals("port") ? 1 : 0;
      }
    } finally {
      watch.close();
    }
  }
}
