package org.nccl4j.api.observe;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.LongConsumer;
import java.util.stream.LongStream;
import jdk.jfr.Event;
import jdk.jfr.Name;
import jdk.jfr.Period;
import jdk.jfr.Recording;
import jdk.jfr.consumer.RecordedEvent;
import jdk.jfr.consumer.RecordingFile;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.api.Devices;
import org.nccl4j.api.FakeDevice;
import org.nccl4j.api.observe.flight.FlightRecorder;
import org.nccl4j.api.observe.span.OperationSpan;
import org.nccl4j.api.observe.span.RecordedRank;
import org.nccl4j.api.observe.span.SpanLogs;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.kernel.CallShape;
import org.nccl4j.operation.Operation;

/** The events of operations that are told as the dispatcher does. */
class OperationEventsTest {
  private static final long LAUNCH_NANOS = 2_000_000;
  private static final long RUN_NANOS = 20_000;
  private static final long SECOND_NANOS = 1_000_000_000;
  private static final int MANY = 1000;
  private static final long SHAPE = CallShape.of(Operation.ALL_REDUCE, DataType.INT8, RedOp.SUM, 0);

  @TempDir Path folder;

  private final FlightRecorder.Rank rank =
      new FlightRecorder.Rank("told", System.nanoTime(), 0, 2, Operation.keys(), "host");

  private final FlightRecorder log = FlightRecorder.open(rank);
  private final OperationHooks hooks = new OperationHooks();
  private final Recording recording = new Recording();
  private final ChunkEnds ends = new ChunkEnds(Duration.ofMinutes(1));
  private final DeviceStream stream = Devices.host().createStream();

  @AfterEach
  void close() {
    recording.close();
    hooks.close();
    log.close();
    stream.close();
  }

  private void start() {
    recording.enable("org.nccl4j.Operation");
    recording.start();
  }

  /** Far more than the rate, before anything is recorded. */
  private void launchManyInASecond(OperationEvents events, long begin) {
    for (int n = 0; n < MANY; n++) {
      log.collective(SHAPE, 5);
    }
    events.look(begin + SECOND_NANOS);
  }

  private void launchAndTell() {
    hooks.launching(1);
    log.collective(SHAPE, 5);
    tell();
  }

  /** A launch that takes a while, as that of a group, or of a thread that is held in it. */
  private static void launchSlowly() {
    long begin = System.nanoTime();
    while (System.nanoTime() - begin < LAUNCH_NANOS) {
      Thread.onSpinWait();
    }
  }

  private void tell() {
    if (hooks.tells()) {
      hooks.tell("all_reduce", 5, DataType.INT8, 0, stream);
    }
  }

  private List<RecordedEvent> recorded() throws Exception {
    stream.synchronize();
    return events("org.nccl4j.Operation").stream()
        .filter(event -> event.getString("communicator").equals("told"))
        .toList();
  }

  private List<RecordedEvent> events(String name) throws Exception {
    Path file = folder.resolve("told.jfr");
    recording.dump(file);
    return RecordingFile.readAllEvents(file).stream()
        .filter(event -> event.getEventType().getName().equals(name))
        .toList();
  }

  /** An event whose duration is known by the other clock, too. */
  @Name("org.nccl4j.test.Timed")
  static final class Timed extends Event {}

  /**
   * The clock of Java Flight Recorder: the JVM may have estimated its frequency, on a busy machine
   * not well.
   */
  private final class Clock {
    private final Timed timed = new Timed();
    private final long beginNanos;
    private double scale;

    Clock() {
      recording.enable(Timed.class);
      beginNanos = System.nanoTime();
      timed.begin();
    }

    void stop() throws Exception {
      timed.end();
      long nanos = System.nanoTime() - beginNanos;
      timed.commit();
      long recorded = events("org.nccl4j.test.Timed").get(0).getDuration().toNanos();
      scale = (double) nanos / recorded;
    }

    /** Returns the most nanoseconds that an event may have taken. */
    double most(RecordedEvent event) {
      return event.getDuration().toNanos() * scale;
    }
  }

  /** Else a rank seems to begin an operation that others have ended. */
  @Test
  void theTimeOfTheLaunchIsKnown() throws Exception {
    start();
    new OperationEvents(log, rank, hooks, 0, this).look();
    hooks.launching(1);
    launchSlowly();
    log.collective(SHAPE, 5);
    tell();
    hooks.launching(3);
    launchSlowly();
    for (int n = 0; n < 3; n++) {
      log.collective(SHAPE, 5);
      tell();
    }
    List<RecordedEvent> events = recorded();
    assertEquals(4, events.size());
    for (RecordedEvent event : events) {
      assertTrue(event.getLong("launchNanos") >= LAUNCH_NANOS, event.toString());
      assertEquals(1, event.getLong("every"));
    }
  }

  /** Of collectives by their number, of others by their own. */
  @Test
  void ofManyOperationsSomeAreLeftOut() throws Exception {
    start(); // may take seconds
    OperationEvents events = new OperationEvents(log, rank, hooks, 1, this);
    long begin = System.nanoTime();
    launchManyInASecond(events, begin);
    for (int n = 0; n < 4000; n++) {
      launchAndTell();
      hooks.launching(1);
      log.other(SHAPE, 5);
      tell();
    }
    List<RecordedEvent> some = recorded();
    assertTrue(some.size() <= 8000 / 8 + 16, some.size() + " are recorded");
    assertTrue(some.stream().allMatch(event -> event.getLong("every") >= 8), some.toString());
  }

  /** So ranks record the same ones, though most are not even told. */
  @Test
  void whatIsRecordedFollowsFromTheNumbersOfCollectives() throws Exception {
    start(); // may take seconds
    long begin = System.nanoTime();
    OperationEvents events = new OperationEvents(log, rank, hooks, 1, this, ends, begin);
    launchManyInASecond(events, begin);
    Thinning same = new Thinning(1, begin);
    same.look(MANY, begin + SECOND_NANOS);
    int told = 0;
    for (int n = 0; n < 50_000; n++) {
      hooks.launching(1);
      log.collective(SHAPE, 5);
      told += hooks.tells() ? 1 : 0;
      tell();
    }
    assertEquals(
        LongStream.rangeClosed(MANY + 1, MANY + 50_000).filter(same::keeps).boxed().toList(),
        recorded().stream().map(event -> event.getLong("number")).toList());
    assertTrue(told <= 50_000 / 100, told + " are told");
  }

  /** Else a rank that pauses would not be recorded for long. */
  @Test
  void aSmallerRateIsHeardOfAtOnce() throws Exception {
    start(); // may take seconds
    long begin = System.nanoTime();
    OperationEvents events = new OperationEvents(log, rank, hooks, 1, this, ends, begin);
    launchManyInASecond(events, begin);
    launchAndTell();
    for (int look = 2; look < 20; look++) {
      launchAndTell();
      events.look(begin + look * 100_000_000_000L);
    }
    int before = recorded().size();
    launchAndTell();
    assertEquals(before + 1, recorded().size());
  }

  /** Operations that take a while, and of which the stream has many. */
  @Test
  void theEndOfTheOperationBeforeOneOfManyIsKnown() throws Exception {
    start(); // may take seconds
    long begin = System.nanoTime();
    OperationEvents events = new OperationEvents(log, rank, hooks, 100, this, ends, begin);
    launchManyInASecond(events, begin);
    Clock clock = new Clock();
    CountDownLatch told = new CountDownLatch(1); // or an operation ends before it is told
    stream.launchHostFunction(() -> awaitQuietly(told));
    for (int n = 0; n < 400; n++) {
      hooks.launching(1);
      stream.launchHostFunction(OperationEventsTest::runShortly);
      if (n % 3 == 1) {
        log.other(SHAPE, 5);
      } else {
        log.collective(SHAPE, 5);
      }
      tell();
    }
    told.countDown();
    stream.synchronize();
    clock.stop();
    List<RecordedEvent> some = recorded();
    assertTrue(some.size() > 2, some.toString());
    for (RecordedEvent event : some) {
      long wait = event.getLong("waitNanos");
      assertEquals(16, event.getLong("every"));
      assertTrue(wait >= 0, event.toString());
      // Half, since the two clocks are not read at the same time.
      double most = clock.most(event);
      assertTrue(wait + RUN_NANOS / 2 <= most, () -> event + " takes at most " + most);
    }
  }

  private static void awaitQuietly(CountDownLatch latch) {
    try {
      assertTrue(latch.await(5, TimeUnit.MINUTES));
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  private static void runShortly() {
    long begin = System.nanoTime();
    while (System.nanoTime() - begin < RUN_NANOS) {
      Thread.onSpinWait();
    }
  }

  @Name("org.nccl4j.test.Reached")
  @Period("endChunk")
  static final class Reached extends Event {}

  @Name("org.nccl4j.test.Next")
  @Period("endChunk")
  static final class Next extends Event {}

  /** On a GPU the times are taken by a thread, which comes some milliseconds later. */
  @Test
  void anOperationThatEndsJustBeforeTheRecordingIsInIt() throws Exception {
    FakeDevice gpu = new FakeDevice();
    FakeDevice.Stream ofGpu = gpu.createStream();
    ofGpu.standsStill = true;
    AtomicInteger told = new AtomicInteger();
    Runnable reached = () -> ofGpu.standsStill = false;
    Runnable next = () -> told.addAndGet(gpu.asked.get());
    start();
    jdk.jfr.FlightRecorder.addPeriodicEvent(Reached.class, reached); // called in this order
    try {
      OperationEvents events =
          new OperationEvents(log, rank, hooks, 0, this, ends, System.nanoTime());
      events.look();
      hooks.launching(1);
      log.collective(SHAPE, 5);
      hooks.tell("all_reduce", 5, DataType.INT8, 0, ofGpu);
      jdk.jfr.FlightRecorder.addPeriodicEvent(Next.class, next);
      assertEquals(1, recorded().size());
      assertEquals(1, told.get());
    } finally {
      jdk.jfr.FlightRecorder.removePeriodicEvent(next);
      jdk.jfr.FlightRecorder.removePeriodicEvent(reached);
      ofGpu.close();
    }
  }

  /** A GPU that hangs must not hold up a recording for each communicator. */
  @Test
  void allListenersOfAChunkEndHaveOneTime() throws Exception {
    List<Long> times = new CopyOnWriteArrayList<>();
    LongConsumer first = end -> times.add(end);
    LongConsumer second = end -> times.add(end);
    start();
    ends.add(first);
    ends.add(second);
    events("org.nccl4j.Operation");
    assertEquals(2, times.size());
    assertEquals(times.get(0), times.get(1));
    ends.remove(first);
    events("org.nccl4j.Operation");
    assertEquals(3, times.size());
    ends.remove(second);
    ends.remove(second);
    events("org.nccl4j.Operation");
    assertEquals(3, times.size());
  }

  /** As a look that hangs while the communicator closes, and goes on later. */
  @Test
  void aLookAfterTheEndRecordsNothing() throws Exception {
    start();
    OperationEvents events = new OperationEvents(log, rank, hooks, 0, this);
    events.end();
    events.look();
    assertFalse(hooks.areAny());
    RecordedRank.ask(this, /* goesOn= */ true, System.nanoTime());
    events.look();
    assertFalse(hooks.areAny());
    RecordedRank.ask(this, /* goesOn= */ false, System.nanoTime());
  }

  /** The bootstrap answers for a moment after the last communicator has closed. */
  @Test
  void nothingIsRecordedOfAJobWithoutCommunicators() throws Exception {
    Object job = new Object();
    byte[] answer = ProgressMonitor.answer(job, RecordedRank.question());
    assertEquals(List.of(), SpanLogs.of(job));
    assertArrayEquals(SpanLogs.nothing(), answer);
    assertEquals(List.of(), RecordedRank.spans(answer));
  }

  /** Without a recording, from the first question to the last. */
  @Test
  void anObserverOfTheJobGetsOperations() throws Exception {
    OperationEvents events = new OperationEvents(log, rank, hooks, 0, this);
    events.look();
    assertFalse(hooks.areAny());
    long now = System.nanoTime(); // of both questions: a recording without one ends
    RecordedRank.ask(this, /* goesOn= */ true, now);
    events.look();
    hooks.launching(1);
    launchSlowly();
    log.collective(SHAPE, 5);
    tell();
    stream.synchronize();
    List<OperationSpan> spans = RecordedRank.ask(this, /* goesOn= */ false, now);
    assertEquals(1, spans.size());
    OperationSpan span = spans.get(0);
    assertEquals("told", span.name());
    assertEquals("all_reduce", span.operation());
    assertEquals(1, span.number());
    assertEquals(1, span.every());
    assertTrue(span.endNanos() - span.beginNanos() >= LAUNCH_NANOS, span.toString());
    long wall = System.currentTimeMillis() * 1_000_000;
    assertTrue(Math.abs(wall - span.endNanos()) < 60_000_000_000L, span + " at " + wall);
    events.look();
    assertFalse(hooks.areAny());
  }
}
