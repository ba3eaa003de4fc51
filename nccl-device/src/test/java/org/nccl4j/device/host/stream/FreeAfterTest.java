package org.nccl4j.device.host.stream;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.Leases;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.host.memory.HostMemory;

/** Memory is freed after what was launched with it, and what is called with it. */
@Timeout(600)
class FreeAfterTest {
  private final Dispatcher dispatcher = new Dispatcher();
  private final CountDownLatch begun = new CountDownLatch(1);
  private final CountDownLatch release = new CountDownLatch(1);
  private final HostStream stream = new HostStream(HostDevice.instance(), dispatcher);
  private final ByteBuffer bytes = ByteBuffer.allocateDirect(64);
  private volatile boolean freed;

  private final HostMemory memory =
      new HostMemory(
          HostDevice.instance(),
          HostMemory.addressOf(bytes),
          64,
          () -> dispatcher.free(() -> freed = true));

  private static void await(CountDownLatch latch) {
    try {
      assertTrue(latch.await(300, TimeUnit.SECONDS));
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  private static void await(BooleanSupplier condition) {
    while (!condition.getAsBoolean()) { // until the timeout of the test
      Thread.onSpinWait();
    }
  }

  private void launchWaiting() {
    stream.launchHostFunction(
        () -> {
          begun.countDown();
          await(release);
        });
    stream.startNow();
    await(begun);
  }

  @Test
  void memoryIsFreedAtOnceWhereNothingRuns() {
    memory.close();
    assertTrue(freed);
  }

  @Test
  void memoryIsFreedWhenWhatWasLaunchedBeforeHasEnded() {
    launchWaiting();
    memory.close();
    assertFalse(freed);
    release.countDown();
    await(() -> freed);
    stream.close();
  }

  /** Something else may be under way all the time. */
  @Test
  void launchesAfterTheCloseAreNotWaitedFor() {
    launchWaiting();
    memory.close();
    CountDownLatch later = new CountDownLatch(1);
    stream.launchHostFunction(() -> await(later));
    release.countDown();
    await(() -> freed);
    later.countDown();
    stream.close();
  }

  @Test
  void memoryThatIsFreedIsNotLaunchedWith() {
    HostMemory slice = memory.slice(8, 8);
    memory.close();
    for (HostMemory each : new HostMemory[] {memory, slice}) {
      InvalidUsageException e =
          assertThrows(
              InvalidUsageException.class,
              () -> stream.launch((send, recv, ticket) -> {}, each, null, 0));
      assertEquals(ErrorId.CLOSED, e.id());
    }
    assertTrue(stream.isEmpty());
    stream.close();
  }

  @Test
  void aCallThatWasMadeBeforeIsLaunchedAndRuns() {
    launchWaiting(); // else the dispatcher may run what follows at any time
    HostMemory slice = memory.slice(8, 8);
    assertTrue(Leases.of(slice).begin());
    memory.close();
    assertFalse(freed);
    assertFalse(slice.isOpen());
    long[] ran = new long[1];
    stream.launch((send, recv, ticket) -> ran[0] = send.size(), slice, null, 0);
    Leases.of(slice).end();
    assertFalse(freed, "it has been launched and has not run");
    release.countDown();
    stream.synchronize();
    assertEquals(8, ran[0]);
    await(() -> freed);
    stream.close();
  }

  /** Beside a read of another thread. */
  @Test
  void memoryIsFreedAfterACopy() throws Exception {
    CountDownLatch closed = new CountDownLatch(1);
    Leases copy = Leases.of(memory);
    assertTrue(copy.begin());
    Thread closing =
        new Thread(
            () -> {
              memory.close();
              closed.countDown();
            });
    closing.start();
    await(closed);
    closing.join();
    assertFalse(freed);
    assertThrows(InvalidUsageException.class, () -> memory.read(0, ByteBuffer.allocate(8)));
    copy.end();
    assertTrue(freed);
  }

  @Test
  void aStreamThatIsClosedUnderACallRunsIt() {
    Leases call = Leases.of(stream);
    assertTrue(call.begin());
    stream.close();
    assertFalse(call.begin(), "a call after the close");
    boolean[] ran = new boolean[1];
    stream.launchHostFunction(() -> ran[0] = true);
    call.end();
    await(stream::isEmpty);
    assertTrue(ran[0]);
    assertThrows(InvalidUsageException.class, () -> stream.launchHostFunction(() -> {}));
  }
}
