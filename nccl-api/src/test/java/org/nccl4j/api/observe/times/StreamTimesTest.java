package org.nccl4j.api.observe.times;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.Devices;
import org.nccl4j.api.FakeDevice;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.support.Patience;

/** Times of a GPU that has only events. */
@Timeout(600)
class StreamTimesTest {
  /** Half of the longest comparison of clocks that counts, and a rounding. */
  private static final long MARGIN_NANOS = TimeUnit.MILLISECONDS.toNanos(50) + 1000;

  private final FakeDevice device = new FakeDevice();
  private final FakeDevice.Stream stream = device.createStream();

  private static void await(BooleanSupplier condition) {
    assertTrue(Patience.until(condition, Duration.ofMinutes(1)));
  }

  /** Settles, for as long as it takes on a busy machine. */
  private static void settle(StreamTimes times, boolean all) {
    times.settle(all, Patience.end(Duration.ofMinutes(1)));
  }

  private void awaitEnd() {
    await(() -> device.openStreams.get() == 1 && device.events.get() == 0);
  }

  @Test
  void pointsAreToldInTheirOrderWithTheirTimes() {
    List<Integer> told = new CopyOnWriteArrayList<>();
    List<Long> ends = new CopyOnWriteArrayList<>();
    try (StreamTimes times = new StreamTimes()) {
      for (int n = 0; n < 100; n++) {
        int number = n;
        times.add(
            stream,
            nanos -> {
              ends.add(nanos);
              told.add(number);
            });
      }
      await(() -> told.size() == 100);
    }
    for (int n = 0; n < 100; n++) {
      assertEquals(n, told.get(n));
      long late = ends.get(n) - stream.recorded.get(n);
      assertTrue(Math.abs(late) <= MARGIN_NANOS, late + " ns");
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
    FakeDevice.Stream still = device.createStream();
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
      settle(times, /* all= */ true);
      for (int round = 1; round <= 20; round++) {
        int number = round;
        times.add(stream, nanos -> told.add(number));
        settle(times, /* all= */ true);
        assertEquals(round, told.size());
      }
      CountDownLatch settled = new CountDownLatch(1);
      times.add(
          stream,
          nanos -> {
            settle(times, /* all= */ true); // which does not wait for itself
            settled.countDown();
          });
      await(() -> settled.getCount() == 0);
    }
    awaitEnd();
  }

  /** As at the end of a recording, while operations go on. */
  @Test
  void whatIsReachedIsToldThoughOthersAreNot() {
    FakeDevice.Stream still = device.createStream();
    still.standsStill = true;
    List<Integer> told = new CopyOnWriteArrayList<>();
    try (StreamTimes times = new StreamTimes()) {
      settle(times, /* all= */ false);
      for (int round = 1; round <= 20; round++) {
        int number = round;
        times.add(stream, nanos -> told.add(number));
        settle(times, /* all= */ false);
        assertEquals(round, told.size());
      }
      times.add(still, nanos -> told.add(0));
      settle(times, /* all= */ false);
      assertEquals(20, told.size());
      still.standsStill = false;
      settle(times, /* all= */ false);
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
      settle(times, /* all= */ true);
    }
    assertEquals(List.of(), told);
  }

  /** Such as of a plugin that lacks a class; before, nobody was told any more. */
  @Test
  void aListenerThatFailsDisturbsNoOther() {
    List<Integer> told = new CopyOnWriteArrayList<>();
    AtomicInteger failures = new AtomicInteger();
    try (StreamTimes failing = new StreamTimes();
        StreamTimes times = new StreamTimes()) {
      for (int round = 1; round <= 3; round++) {
        int number = round;
        failing.add(
            stream,
            nanos -> {
              failures.incrementAndGet();
              throw new NoClassDefFoundError("of a plugin");
            });
        times.add(stream, nanos -> told.add(number));
        settle(failing, /* all= */ true);
        settle(times, /* all= */ true);
        assertEquals(round, failures.get());
        assertEquals(round, told.size());
      }
    }
    awaitEnd();
  }

  @Test
  void aListenerThatFailsOnTheHostDeviceDoesNotFailTheStream() {
    List<Integer> told = new CopyOnWriteArrayList<>();
    try (DeviceStream host = Devices.host().createStream();
        StreamTimes times = new StreamTimes()) {
      times.add(
          host,
          nanos -> {
            throw new NoClassDefFoundError("of a plugin");
          });
      times.add(host, nanos -> told.add(1));
      settle(times, /* all= */ true);
      assertEquals(List.of(1), told);
      host.synchronize();
    }
  }

  /** Its operation has ended, and the thread of the stream is about to tell it. */
  @Test
  void theHostFunctionBehindAnOperationIsWaitedFor() throws Exception {
    CountDownLatch held = new CountDownLatch(1);
    AtomicInteger told = new AtomicInteger();
    try (DeviceStream host = Devices.host().createStream();
        StreamTimes times = new StreamTimes()) {
      times.add(
          host,
          nanos -> {
            await(() -> held.getCount() == 0);
            told.incrementAndGet();
          });
      settle(times, /* all= */ false); // waits for nothing
      assertEquals(0, told.get());
      Thread settling = new Thread(() -> settle(times, /* all= */ true));
      settling.start();
      await(() -> settling.getState() == Thread.State.TIMED_WAITING);
      held.countDown();
      settling.join();
      assertEquals(1, told.get());
    }
  }

  /** Before, the others' times were taken no more either. */
  @Test
  void aPointThatCannotBeAskedIsDropped() {
    List<Integer> told = new CopyOnWriteArrayList<>();
    try (StreamTimes times = new StreamTimes();
        StreamTimes other = new StreamTimes()) {
      stream.breaksEvents = true;
      times.add(stream, nanos -> told.add(0));
      stream.breaksEvents = false;
      times.add(stream, nanos -> told.add(1));
      other.add(stream, nanos -> told.add(2));
      await(() -> told.size() == 2);
      settle(times, /* all= */ true);
    }
    assertEquals(Set.of(1, 2), Set.copyOf(told));
    awaitEnd();
  }

  /** The operation has been launched all the same. */
  @Test
  void aPointThatCannotBeAddedIsDropped() {
    List<Integer> told = new CopyOnWriteArrayList<>();
    try (StreamTimes times = new StreamTimes()) {
      times.add(stream, nanos -> told.add(1));
      settle(times, /* all= */ true);
      stream.before =
          () -> {
            throw new InternalErrorException("the stream is not valid", "none");
          };
      times.add(stream, nanos -> told.add(2));
      stream.before = () -> {};
      device.isFull = true;
      times.add(stream, nanos -> told.add(3)); // by a free event, or none
      times.add(stream, nanos -> told.add(4));
      times.add(stream, nanos -> told.add(5));
      device.isFull = false;
      times.add(stream, nanos -> told.add(6));
      settle(times, /* all= */ true);
      assertTrue(told.contains(1) && told.contains(6) && !told.contains(2), told.toString());
    }
    awaitEnd();
  }

  @Test
  void nobodyWaitsLongerThanTheTimeGiven() {
    stream.standsStill = true;
    try (StreamTimes times = new StreamTimes()) {
      times.add(stream, nanos -> {});
      times.settle(/* all= */ true, System.nanoTime());
      times.settle(/* all= */ false, System.nanoTime());
      stream.standsStill = false;
    }
    awaitEnd();
  }
}
