package org.nccl4j.device.cuda.driver;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.LongSupplier;
import org.nccl4j.device.CudaException;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.Leases;
import org.nccl4j.device.support.DaemonThread;
import org.nccl4j.device.support.Patience;

/**
 * Frees a GPU's memory: at once where its owner closes it, else on a thread of its own. The driver
 * may wait for operations that wait for what the calling thread launches next. Launches hold no
 * leases, so both come after the launches that are under way. An allocation waits for threads that
 * free, where the driver has no other memory.
 */
public final class DeferredFree extends Leases {
  private static final System.Logger LOG = DebugLog.of("ALLOC");

  private static final long MOMENT_MILLIS = 200;

  /** Time that an allocation waits for threads that free. */
  private static final Duration PATIENCE = Duration.ofSeconds(10);

  /** The threads that free, by the place of what they free. */
  private static final Map<Thread, Object> UNDER_WAY = new ConcurrentHashMap<>();

  private final LaunchGates gates;
  private final Object place;
  private final Runnable release;

  /**
   * Leases of a memory.
   *
   * @param gates of the communicators that may launch with it
   * @param place where it lies, for messages
   */
  public DeferredFree(LaunchGates gates, Object place, Runnable release) {
    this.gates = gates;
    this.place = place;
    this.release = release;
  }

  @Override
  protected void free() {
    LaunchGates.Launches launches = gates.underWay();
    if (launches.awaitBriefly()) {
      release.run();
    } else {
      freeLate(launches);
    }
  }

  @Override
  protected void freeLate() {
    freeLate(gates.underWay());
  }

  private void freeLate(LaunchGates.Launches launches) {
    later(
        () -> {
          launches.await();
          release.run();
        },
        place);
  }

  /**
   * Runs what may wait for operations of a GPU, which may wait for what this thread launches next.
   * So it ends on a thread of its own if it takes longer than a moment.
   */
  public static void soon(Runnable release, Object place) {
    Thread thread = later(release, place);
    try {
      thread.join(MOMENT_MILLIS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  /** Runs what may wait for operations of a GPU. */
  public static Thread later(Runnable release, Object place) {
    Thread thread = DaemonThread.of(() -> run(release, place), "nccl4j-free");
    UNDER_WAY.put(thread, place);
    try {
      thread.start();
    } catch (Throwable e) { // the process has too many threads
      UNDER_WAY.remove(thread);
      throw e;
    }
    return thread;
  }

  /**
   * Allocates memory of a GPU. If the driver has none left, waits for some time until the memory is
   * free that is being freed, and asks the driver once more.
   *
   * @param allocation calls the driver
   * @throws CudaException if the driver refuses, the second time too where memory was being freed
   */
  static long allocating(Object place, LongSupplier allocation) {
    return allocating(place, allocation, PATIENCE);
  }

  static long allocating(Object place, LongSupplier allocation, Duration patience) {
    List<Thread> before = underWay(place); // may end between the driver's answer and a look
    try {
      return allocation.getAsLong();
    } catch (CudaException e) {
      List<Thread> now = underWay(place);
      if (!CudaResult.isOutOfMemory(e) || before.isEmpty() && now.isEmpty()) {
        throw e;
      }
      long end = Patience.end(patience);
      now.forEach(each -> Patience.join(each, Duration.ofNanos(end - System.nanoTime())));
      return allocatingAgain(place, allocation, patience);
    }
  }

  private static long allocatingAgain(Object place, LongSupplier allocation, Duration patience) {
    try {
      return allocation.getAsLong();
    } catch (CudaException e) {
      if (underWay(place).isEmpty()) {
        throw e;
      }
      throw e.within(
          "%s; memory that was closed is not free after %s, since operations of the GPU that may use"
                  .formatted(e.problem(), Patience.text(patience))
              + " it have not ended");
    }
  }

  private static List<Thread> underWay(Object place) {
    return UNDER_WAY.entrySet().stream()
        .filter(each -> each.getValue() == place)
        .map(Map.Entry::getKey)
        .toList();
  }

  private static void run(Runnable release, Object place) {
    try {
      release.run();
    } catch (RuntimeException e) { // nobody else would hear of it
      LOG.log(
          System.Logger.Level.WARNING,
          "memory that was closed while a call used it could not be freed on " + place + ": " + e);
    } finally {
      UNDER_WAY.remove(Thread.currentThread());
    }
  }
}
