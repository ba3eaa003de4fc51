package org.nccl4j.api.observe;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.Proxy;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.IntFunction;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.observe.flight.FlightRecorder;
import org.nccl4j.api.observe.span.RecordedRank;
import org.nccl4j.api.settings.InfoLog;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RemoteException;
import org.nccl4j.device.kernel.CallShape;
import org.nccl4j.device.kernel.KernelCommunicator;

/** One thread looks at all communicators, and none may take it from the others. */
class ProgressMonitorTest {
  private static final List<String> OPERATIONS = List.of("all_reduce");

  /** The source of calls that the kernels which were watched last ask. */
  private static final AtomicReference<IntFunction<?>> CALLS = new AtomicReference<>();

  @Test
  void aCommunicatorThatCannotBeLookedAtDoesNotEndTheLooksAtOthers() throws Exception {
    CountDownLatch looks = new CountDownLatch(3);
    CountDownLatch told = new CountDownLatch(1);
    CountDownLatch toldOfBroken = new CountDownLatch(1);
    AtomicInteger idle = new AtomicInteger();
    AtomicReference<NcclException> failure = new AtomicReference<>();
    AtomicReference<NcclException> ofBroken = new AtomicReference<>();
    KernelCommunicator broken =
        kernels(
            () -> {
              looks.countDown();
              throw new InternalErrorException("the driver is gone", "restart", null);
            },
            ofBroken);
    KernelCommunicator sound = kernels(idle::incrementAndGet, failure);
    ProgressMonitor first = watch(broken, 1, toldOfBroken);
    ProgressMonitor second = watch(sound, 2, told);
    try {
      assertTrue(looks.await(300, TimeUnit.SECONDS), "it is looked at again and again");
      failure.set(new RemoteException("rank 1 is gone", "restart it"));
      assertTrue(told.await(300, TimeUnit.SECONDS), "a failure of the other is told");
      assertTrue(idle.get() > 0);
      assertEquals(1, toldOfBroken.getCount());
      ofBroken.set(new RemoteException("rank 2 is gone", "restart it"));
      assertTrue(toldOfBroken.await(300, TimeUnit.SECONDS), "and so is its own");
    } finally {
      first.close();
      second.close();
    }
  }

  /** Its kernels' memory goes when it is closed. */
  @Test
  void closingWaitsForALookAndThereIsNoneAfterwards() throws Exception {
    CountDownLatch begun = new CountDownLatch(1);
    CountDownLatch goOn = new CountDownLatch(1);
    AtomicInteger looks = new AtomicInteger();
    Runnable slow =
        () -> {
          looks.incrementAndGet();
          begun.countDown();
          try {
            assertTrue(goOn.await(300, TimeUnit.SECONDS));
          } catch (InterruptedException e) {
            throw new IllegalStateException(e);
          }
        };
    CountDownLatch several = new CountDownLatch(3);
    ProgressMonitor observer =
        watch(kernels(slow, new AtomicReference<>()), 1, new CountDownLatch(1));
    ProgressMonitor other =
        watch(kernels(several::countDown, new AtomicReference<>()), 2, new CountDownLatch(1));
    try {
      assertTrue(begun.await(300, TimeUnit.SECONDS));
      FutureTask<Void> closing =
          new FutureTask<>(
              () -> {
                Thread.currentThread().interrupt();
                observer.close();
                assertTrue(Thread.interrupted(), "and it stays interrupted");
                return null;
              });
      Thread closer = new Thread(closing, "closer");
      closer.start();
      while (closer.getState() != Thread.State.TIMED_WAITING && closer.isAlive()) {
        Thread.onSpinWait();
      }
      assertThrows(TimeoutException.class, () -> closing.get(100, TimeUnit.MILLISECONDS));
      int before = looks.get();
      goOn.countDown();
      closing.get(300, TimeUnit.SECONDS);
      assertTrue(several.await(300, TimeUnit.SECONDS), "the others are looked at again");
      assertEquals(before, looks.get());
    } finally {
      goOn.countDown();
      observer.close();
      other.close();
    }
  }

  /** It cannot be logged, as where memory is short. */
  private static final class NoMemory extends Error {
    private static final long serialVersionUID = 1L;

    @Override
    public String toString() {
      throw new OutOfMemoryError("a test");
    }
  }

  @Test
  void anErrorThatCannotBeLoggedDoesNotEndTheLooks() throws Exception {
    CountDownLatch looks = new CountDownLatch(3);
    CountDownLatch ofOther = new CountDownLatch(3);
    ProgressMonitor first =
        watch(
            kernels(
                () -> {
                  looks.countDown();
                  throw new NoMemory();
                },
                new AtomicReference<>()),
            1,
            new CountDownLatch(1));
    ProgressMonitor second =
        watch(kernels(ofOther::countDown, new AtomicReference<>()), 2, new CountDownLatch(1));
    try {
      assertTrue(looks.await(300, TimeUnit.SECONDS));
      assertTrue(ofOther.await(300, TimeUnit.SECONDS));
    } finally {
      first.close();
      second.close();
    }
  }

  @Test
  void anOperationThatWaitsForLongIsToldOfOnce() {
    List<String> warnings = new CopyOnWriteArrayList<>();
    Handler handler =
        new Handler() {
          @Override
          public void publish(LogRecord record) {
            if (record.getMessage().contains("has waited more than 60 s")) {
              warnings.add(record.getMessage());
            }
          }

          @Override
          public void flush() {}

          @Override
          public void close() {}
        };
    Logger logger = Logger.getLogger("org.nccl4j.RAS");
    logger.addHandler(handler);
    FlightRecorder.Rank rank = new FlightRecorder.Rank("observed", 3, 0, 2, OPERATIONS, "");
    FlightRecorder log = FlightRecorder.open(rank);
    ProgressMonitor observer =
        watch(log, rank, kernels(() -> {}, new AtomicReference<>(), 1), new CountDownLatch(1));
    try {
      log.collective(CallShape.of(0, 0, 0, 0), 5);
      long now = System.currentTimeMillis();
      observer.look(now);
      assertEquals(List.of(), warnings);
      observer.look(now + 61_000);
      observer.look(now + 300_000);
      assertEquals(1, warnings.size(), warnings.toString());
      assertTrue(
          warnings.get(0).contains("rank 0 waits for rank 1 in operation 1"), warnings.get(0));
    } finally {
      observer.close();
      logger.removeHandler(handler);
    }
  }

  /** Its record cannot be read any more, but it has said which calls differ. */
  @Test
  void theCallOfARankThatHasClosedIsKnownFromItsFailure() {
    String clause = "as collective 1 rank 1 calls broadcast and rank 0 calls all_reduce";
    AtomicReference<NcclException> failure = new AtomicReference<>();
    ProgressMonitor observer = watch(kernels(() -> {}, failure), 4, new CountDownLatch(1));
    try {
      failure.set(new RemoteException("rank 1 is gone", "restart it"));
      FlightRecorder other =
          FlightRecorder.open(new FlightRecorder.Rank("observed", 4, 1, 2, OPERATIONS, ""));
      assertEquals("", CALLS.get().apply(1));
      other.close();
      failure.set(
          new RemoteException(
              ErrorId.RANK_FAILED,
              "rank 1 failed: " + clause,
              "none",
              new InvalidUsageException(ErrorId.CALLS_DIFFER, clause, "none")));
      assertEquals("rank 1 failed: " + clause, CALLS.get().apply(1));
    } finally {
      observer.close();
    }
  }

  /** As where the system has no room for the observer's thread. */
  @Test
  void anObserverThatCannotBeginListensToNothing() throws Exception {
    FlightRecorder.Rank rank = new FlightRecorder.Rank("observed", 77, 0, 2, OPERATIONS, "");
    KernelCommunicator kernels =
        (KernelCommunicator)
            Proxy.newProxyInstance(
                ProgressMonitorTest.class.getClassLoader(),
                new Class<?>[] {KernelCommunicator.class},
                (proxy, method, arguments) -> {
                  throw new OutOfMemoryError("a test");
                });
    ProgressMonitor.Connections connections = connections(77, new CountDownLatch(1));
    OperationHooks hooks = new OperationHooks();
    RecordedRank.ask(connections, /* goesOn= */ true, System.nanoTime());
    FlightRecorder log = FlightRecorder.open(rank);
    try {
      assertThrows(
          OutOfMemoryError.class,
          () -> ProgressMonitor.watch(log, rank, kernels, hooks, connections, List::of, options()));
      assertFalse(hooks.areAny());
    } finally {
      log.close();
      RecordedRank.ask(connections, /* goesOn= */ false, System.nanoTime());
    }
  }

  private static ProgressMonitor watch(KernelCommunicator kernels, long id, CountDownLatch told) {
    FlightRecorder.Rank rank = new FlightRecorder.Rank("observed", id, 0, 2, OPERATIONS, "");
    return watch(FlightRecorder.open(rank), rank, kernels, told);
  }

  private static ProgressMonitor watch(
      FlightRecorder log,
      FlightRecorder.Rank rank,
      KernelCommunicator kernels,
      CountDownLatch told) {
    return ProgressMonitor.watch(
        log,
        rank,
        kernels,
        new OperationHooks(),
        connections(rank.communicator(), told),
        List::of,
        options());
  }

  private static ProgressMonitor.Connections connections(long id, CountDownLatch told) {
    return new ProgressMonitor.Connections() {
      @Override
      public void failed() {
        told.countDown();
      }

      @Override
      public void tell(byte[] notice) {
        throw new AssertionError("nobody waits");
      }

      @Override
      public Set<Long> users() {
        return Set.of(id);
      }

      @Override
      public Object job() {
        return this;
      }
    };
  }

  private static ProgressMonitor.Options options() {
    return new ProgressMonitor.Options(
        /* counts= */ true,
        false,
        "",
        0,
        new InfoLog(Settings.ofProcess(Map.of()), "rank 0 of communicator observed"));
  }

  private static KernelCommunicator kernels(Runnable look, AtomicReference<NcclException> failure) {
    return kernels(look, failure, -1);
  }

  private static KernelCommunicator kernels(
      Runnable look, AtomicReference<NcclException> failure, int waitsFor) {
    return (KernelCommunicator)
        Proxy.newProxyInstance(
            ProgressMonitorTest.class.getClassLoader(),
            new Class<?>[] {KernelCommunicator.class},
            (proxy, method, arguments) ->
                switch (method.getName()) {
                  case "ended" -> {
                    look.run();
                    yield 0L;
                  }
                  case "firstNotEnded" -> 1L;
                  case "waitsFor" -> waitsFor;
                  case "isInGraphs" -> false;
                  case "failure" -> failure.get();
                  case "explainDeadlines" -> null;
                  case "explainMismatches" -> {
                    CALLS.set((IntFunction<?>) arguments[0]);
                    yield null;
                  }
                  default -> throw new UnsupportedOperationException(method.getName());
                });
  }
}
