package org.nccl4j.api.observe.times;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.device.support.Patience;

/** Times of a GPU that has only events. */
@Timeout(600)
class StreamTimesTest {
  private static final long MARGIN_NANOS = TimeUnit.MILLISECONDS.toNanos(200);

  private final EventDevice device = new EventDevice();
  private final EventDevice.Stream stream = device.createStream();

  private static void await(BooleanSupplier condition) {
    assertTrue(Patience.until(condition, Duration.ofMinutes(1)));
  }

  private void awaitEnd() {
    await(() -> device.openStreams.get() == 1 && device.events.get() == 0);
  }

  @Test
  void pointsAreToldInTheirOrderWithTheirTimes() {
    List<Integer> told = new CopyOnWriteArrayList<>();
    List<Long> late = new CopyOnWriteArrayList<>();
    try (StreamTimes times = new StreamTimes()) {
      for (int n = 0; n < 100; n++) {
        int number = n;
        long before = System.nanoTime();
        times.add(
            stream,
            nanos -> {
              told.add(number);
              late.add(nanos - before);
            });
      }
      await(() -> told.size() == 100);
    }
    for (int n = 0; n < 100; n++) {
      assertEquals(n, told.get(n));
      assertTrue(Math.abs(late.get(n)) < MARGIN_NANOS, late.toString());
    }
    awaitEnd();
  }

  @Test
  void allListenersOfADeviceHaveOneThread() {
    List<StreamTimes> all = new ArrayList<>();
    CountDownLatch told = new CountDownLatch(8);
    for (int n = 0; n < 8; n++) {
      StreamTimes times = new StreamTimes();
      times.add(stream, nanos -> told.countDown());
      all.add(times);
    }
    await(() -> told.getCount() == 0);
    assertEquals(2, device.streams.get(), "that of the thread and the test's");
    all.forEach(StreamTimes::close);
    awaitEnd();
    try (StreamTimes times = new StreamTimes()) {
      CountDownLatch again = new CountDownLatch(1);
      times.add(stream, nanos -> again.countDown());
      await(() -> again.getCount() == 0);
    }
    assertEquals(3, device.streams.get(), "another thread");
    awaitEnd();
  }

  @Test
  void streamsThatStandStillHoldUpNoOtherListener() {
    EventDevice.Stream still = device.createStream();
    still.standsStill = true;
    CountDownLatch told = new CountDownLatch(1);
    CountDownLatch later = new CountDownLatch(1);
    try (StreamTimes first = new StreamTimes();
        StreamTimes second = new StreamTimes()) {
      first.add(still, nanos -> later.countDown());
      second.add(stream, nanos -> told.countDown());
      await(() -> told.getCount() == 0);
      assertEquals(1, later.getCount());
      still.standsStill = false;
      await(() -> later.getCount() == 0);
    }
    still.close();
    awaitEnd();
  }

  /** As at the close of a communicator. */
  @Test
  void whatIsReachedIsToldOnceItIsSettled() {
    List<Integer> told = new CopyOnWriteArrayList<>();
    try (StreamTimes times = new StreamTimes()) {
      times.settle();
      for (int round = 1; round <= 20; round++) {
        int number = round;
        times.add(stream, nanos -> told.add(number));
        times.settle();
        assertEquals(round, told.size());
      }
      CountDownLatch settled = new CountDownLatch(1);
      times.add(
          stream,
          nanos -> {
            times.settle(); // which does not wait for itself
            settled.countDown();
          });
      await(() -> settled.getCount() == 0);
    }
    awaitEnd();
  }

  /** As at the end of a recording, while operations go on. */
  @Test
  void whatIsReachedIsToldThoughOthersAreNot() {
    EventDevice.Stream still = device.createStream();
    still.standsStill = true;
    List<Integer> told = new CopyOnWriteArrayList<>();
    try (StreamTimes times = new StreamTimes()) {
      times.tellReached();
      for (int round = 1; round <= 20; round++) {
        int number = round;
        times.add(stream, nanos -> told.add(number));
        times.tellReached();
        assertEquals(round, told.size());
      }
      times.add(still, nanos -> told.add(0));
      times.tellReached();
      assertEquals(20, told.size());
      still.standsStill = false;
      times.tellReached();
      assertEquals(21, told.size());
    }
    still.close();
    awaitEnd();
  }

  /** Before, its event stayed for as long as the process. */
  @Test
  void theEventOfAPointThatComesAfterTheEndIsFreed() {
    StreamTimes times = new StreamTimes();
    CountDownLatch told = new CountDownLatch(1);
    times.add(stream, nanos -> told.countDown());
    await(() -> told.getCount() == 0); // so the thread has its stream
    stream.before =
        () -> {
          times.close();
          await(() -> device.openStreams.get() == 1);
        };
    times.add(stream, nanos -> {});
    assertEquals(0, device.events.get());
    stream.before = () -> {};
    times.add(stream, nanos -> {});
    assertEquals(0, device.events.get());
  }

  @Test
  void aGpuThatHasFailedTellsNothingAndKeepsNothing() {
    List<Integer> told = new CopyOnWriteArrayList<>();
    stream.standsStill = true;
    try (StreamTimes times = new StreamTimes()) {
      times.add(stream, nanos -> told.add(1));
      device.failed = true;
      awaitEnd();
      times.add(stream, nanos -> told.add(2)); // as the operation has been launched, it is no error
      times.settle();
    }
    assertEquals(List.of(), told);
  }
}
