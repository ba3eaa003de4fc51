package org.nccl4j.api.bootstrap.connection;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.Pipe;
import java.nio.channels.SelectionKey;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.bootstrap.LeftBehind;

/** The end of the loop that all bootstraps of a process share. */
@Timeout(600)
class EventLoopTest {
  @AfterEach
  void nothingIsLeft() throws InterruptedException {
    LeftBehind.nothing();
  }

  /** Has something to say, and says it when it is let. */
  private static final class Talker implements EventLoop.Handler {
    private final Pipe.SinkChannel out;
    private final CountDownLatch asked = new CountDownLatch(1);
    private volatile boolean allowed;
    private boolean said;

    Talker(Pipe.SinkChannel out) {
      this.out = out;
    }

    @Override
    public void ready(SelectionKey key) {
      try {
        if (allowed && !said) {
          out.write(ByteBuffer.wrap(new byte[] {7}));
          said = true;
        }
      } catch (IOException e) {
        throw new AssertionError(e);
      }
    }

    @Override
    public boolean isFinishing() {
      asked.countDown();
      return !said;
    }
  }

  @Test
  void whatIsSaidLastIsSentBeforeItEnds() throws Exception {
    Pipe pipe = Pipe.open();
    Talker talker = new Talker(pipe.sink());
    EventLoop loop = EventLoop.acquire();
    CompletableFuture<SelectionKey> registered = new CompletableFuture<>();
    loop.execute(
        () -> {
          try {
            registered.complete(loop.register(pipe.sink(), SelectionKey.OP_WRITE, talker));
          } catch (IOException e) {
            registered.completeExceptionally(e);
          }
        });
    registered.get(300, TimeUnit.SECONDS);
    loop.release();
    assertTrue(talker.asked.await(300, TimeUnit.SECONDS), "whether it has something to say");
    talker.allowed = true;
    ByteBuffer got = ByteBuffer.allocate(2);
    assertEquals(1, pipe.source().read(got));
    assertEquals(7, got.get(0));
    assertEquals(-1, pipe.source().read(got), "and then it is closed");
    pipe.source().close();
  }
}
