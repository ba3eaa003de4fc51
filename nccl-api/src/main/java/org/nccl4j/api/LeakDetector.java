package org.nccl4j.api;

import java.lang.ref.Cleaner;
import org.nccl4j.api.init.CommunicatorState;
import org.nccl4j.device.DebugLog;

/**
 * Logs communicators that were garbage collected before close, with the place of their creation.
 * They are not closed then: an operation may still run.
 */
final class LeakDetector implements Runnable {
  private static final System.Logger LOG = DebugLog.of("INIT");
  private static final Cleaner CLEANER = Cleaner.create();
  private static final String OWN = Communicator.class.getPackageName() + ".";

  private final CommunicatorState state;
  private final String place;

  private LeakDetector(CommunicatorState state, String place) {
    this.state = state;
    this.place = place;
  }

  /**
   * Watches a communicator.
   *
   * @param handle referenced by all objects that represent the communicator, and by nothing else
   */
  static void watch(Object handle, CommunicatorState state) {
    CLEANER.register(handle, new LeakDetector(state, caller()));
  }

  /** The first frame of the calling thread that is not this library's. */
  private static String caller() {
    return StackWalker.getInstance()
        .walk(
            frames ->
                frames
                    .filter(frame -> !isOwn(frame.getClassName()))
                    .findFirst()
                    .map(frame -> frame.toStackTraceElement().toString()))
        .orElseGet(() -> "thread " + Thread.currentThread().getName());
  }

  private static boolean isOwn(String name) {
    return name.startsWith(OWN) || name.startsWith("java.");
  }

  @Override
  public void run() {
    if (!state.isClosed()) {
      LOG.log(
          System.Logger.Level.WARNING,
          ("communicator %s of rank %d of %d was garbage collected before close; it was created at"
                      + " %s. It keeps")
                  .formatted(state.name(), state.rank(), state.nRanks(), place)
              + " its memory, connections and threads. Remedy: close each communicator, for"
              + " example with try-with-resources");
    }
  }
}
