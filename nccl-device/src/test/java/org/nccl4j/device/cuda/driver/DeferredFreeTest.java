package org.nccl4j.device.cuda.driver;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.LongSupplier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.device.CudaException;
import org.nccl4j.device.NcclException;

/** Allocations beside memory that is being freed. */
@Timeout(600)
class DeferredFreeTest {
  private static final int OUT_OF_MEMORY = 2;
  private static final int INVALID_VALUE = 1;
  private static final Duration LONG = Duration.ofSeconds(300);

  private final Object gpu = "this GPU";
  private final CountDownLatch ended = new CountDownLatch(1);
  private final AtomicInteger calls = new AtomicInteger();
  private volatile boolean freed;

  private Thread free(Object place) {
    return DeferredFree.later(
        () -> {
          try {
            ended.await();
          } catch (InterruptedException e) {
            throw new AssertionError(e);
          }
          freed = true;
        },
        place);
  }

  /** A call of the driver's that has memory when the other is free. */
  private LongSupplier refusingWith(int code) {
    return () -> {
      calls.incrementAndGet();
      if (!freed) {
        ended.countDown();
        throw new CudaException("the driver refuses", "none", code);
      }
      return 7;
    };
  }

  @Test
  void memoryThatIsBeingFreedIsAwaited() {
    free(gpu);
    assertEquals(7, DeferredFree.allocating(gpu, refusingWith(OUT_OF_MEMORY), LONG));
    assertEquals(2, calls.get());
  }

  /** It is free between the driver's answer and the look at what is under way. */
  @Test
  void memoryThatWasFreedMeanwhileIsSeen() {
    Thread thread = free(gpu);
    LongSupplier refusing = refusingWith(OUT_OF_MEMORY);
    LongSupplier late =
        () -> {
          try {
            return refusing.getAsLong();
          } finally {
            join(thread);
          }
        };
    assertEquals(7, DeferredFree.allocating(gpu, late, LONG));
  }

  private static void join(Thread thread) {
    try {
      thread.join();
    } catch (InterruptedException e) {
      throw new AssertionError(e);
    }
  }

  @Test
  void otherErrorsAndOtherGpusAreNotAwaited() {
    LongSupplier refusing = refusingWith(OUT_OF_MEMORY);
    CudaException alone =
        assertThrows(CudaException.class, () -> DeferredFree.allocating(gpu, refusing, LONG));
    assertEquals("the driver refuses", alone.problem());
    assertEquals(1, calls.get());
    CountDownLatch never = new CountDownLatch(1);
    Thread other = DeferredFree.later(() -> await(never), "another GPU");
    assertThrows(CudaException.class, () -> DeferredFree.allocating(gpu, refusing, LONG));
    assertEquals(2, calls.get());
    Thread own = DeferredFree.later(() -> await(never), gpu);
    LongSupplier wrong = refusingWith(INVALID_VALUE);
    assertThrows(CudaException.class, () -> DeferredFree.allocating(gpu, wrong, LONG));
    assertEquals(3, calls.get());
    never.countDown();
    join(other);
    join(own);
  }

  private static void await(CountDownLatch latch) {
    try {
      latch.await();
    } catch (InterruptedException e) {
      throw new AssertionError(e);
    }
  }

  @Test
  void aFreeThatDoesNotEndIsNamed() {
    CountDownLatch never = new CountDownLatch(1);
    Thread own = DeferredFree.later(() -> await(never), gpu);
    NcclException e =
        assertThrows(
            CudaException.class,
            () -> DeferredFree.allocating(gpu, refusingWith(OUT_OF_MEMORY), Duration.ofMillis(1)));
    assertTrue(e.problem().contains("memory that was closed is not free after 1 ms"), e.problem());
    assertSame(CudaException.class, e.getClass());
    assertEquals(2, calls.get());
    never.countDown();
    join(own);
  }
}
