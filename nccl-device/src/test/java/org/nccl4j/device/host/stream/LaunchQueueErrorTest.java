package org.nccl4j.device.host.stream;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.InternalErrorException;

class LaunchQueueErrorTest {
  /** Of which nothing can be said, as where memory is short. */
  private static final class NoMemory extends Error {
    private static final long serialVersionUID = 1L;

    @Override
    public String toString() {
      throw new OutOfMemoryError("a test");
    }
  }

  @Test
  void anOperationWhoseErrorCannotBeToldRunsOnce() {
    LaunchQueue queue = new LaunchQueue();
    AtomicInteger runs = new AtomicInteger();
    StreamOperation fails =
        (send, recv, ticket) -> {
          runs.incrementAndGet();
          throw new NoMemory();
        };
    StreamOperation next = (send, recv, ticket) -> runs.addAndGet(10);
    assertTrue(queue.add(fails, null, null, 0));
    assertTrue(queue.add(next, null, null, 1));
    assertTrue(queue.run(2));
    assertEquals(11, runs.get());
    assertEquals(2, queue.ended());
    assertInstanceOf(InternalErrorException.class, queue.takeError());
    assertNull(queue.takeError());
  }
}
