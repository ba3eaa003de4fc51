package org.nccl4j.api.bootstrap.connection;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.Pipe;
import java.nio.channels.SelectionKey;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.bootstrap.LeftBehind;
import org.nccl4j.api.bootstrap.Ranks;

/** The end of the loop that all bootstraps of a process share. */
@Timeout(600)
class EventLoopTest {
  private static final int MOST_LOOPS = 10;

  /** An earlier test's user would keep the loop going. */
  @BeforeEach
  @AfterEach
  void nothingIsLeft() throws InterruptedException {
    LeftBehind.nothing();
  }

  /** Has something to say, and says it once the loop, which ends, asks for it. */
  private static final class Talker implements EventLoop.Handler {
    private final Pipe.SinkChannel out;
    private boolean allowed;
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
      allowed = true;
      return !said;
    }
  }

  @Test
  void whatIsSaidLastIsSentBeforeItEnds() throws Exception {
    ByteBuffer got = lastOfALoop();
    // A loop that the machine stops meanwhile may go on for no longer, and says nothing.
    for (int loops = 1; loops < MOST_LOOPS && got.position() == 0; loops++) {
      got = lastOfALoop();
    }
    assertEquals(1, got.position());
    assertEquals(7, got.get(0));
  }

  /** All that is said until the loop has closed the channel. */
  private static ByteBuffer lastOfALoop() throws Exception {
    Pipe pipe = Pipe.open();
    EventLoop loop = EventLoop.acquire();
    CompletableFuture<SelectionKey> registered = new CompletableFuture<>();
    loop.execute(
        () -> {
          try {
            registered.complete(
                loop.register(pipe.sink(), SelectionKey.OP_WRITE, new Talker(pipe.sink())));
          } catch (IOException e) {
            registered.completeExceptionally(e);
          }
        });
    registered.get(Ranks.LONG.toSeconds(), TimeUnit.SECONDS);
    loop.release();
    ByteBuffer got = ByteBuffer.allocate(2);
    try (Pipe.SourceChannel source = pipe.source()) {
      int read = source.read(got);
      while (read > 0) {
        read = source.read(got);
      }
    }
    return got;
  }
}
