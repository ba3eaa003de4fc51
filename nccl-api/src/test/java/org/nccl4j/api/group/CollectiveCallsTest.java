package org.nccl4j.api.group;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;

/** Calls of a group that wait for other ranks. */
@Timeout(60)
class CollectiveCallsTest {
  private final AtomicInteger ended = new AtomicInteger();

  private void waitForEver() {
    try {
      new CountDownLatch(1).await();
    } catch (InterruptedException e) {
      ended.incrementAndGet();
      throw new InvalidUsageException(ErrorId.INTERRUPTED, "a call ended", "none", e);
    }
  }

  /** The caller frees memory afterwards, which the calls may not use then. */
  @Test
  void anInterruptionEndsTheCallsBeforeTheGroup() {
    List<CollectiveCalls.Meeting> calls =
        List.of(
            new CollectiveCalls.Meeting("rank 0", this::waitForEver),
            new CollectiveCalls.Meeting("rank 1", this::waitForEver));
    Thread.currentThread().interrupt();
    NcclException e = assertThrows(NcclException.class, () -> CollectiveCalls.run(calls));
    assertTrue(Thread.interrupted());
    assertEquals(ErrorId.INTERRUPTED, e.id());
    assertEquals(2, ended.get());
  }
}
