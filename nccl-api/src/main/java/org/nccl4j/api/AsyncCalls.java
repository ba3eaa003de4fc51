package org.nccl4j.api;

import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;

/**
 * Runs calls that wait for other ranks, each on its own thread; calls of one object run one after
 * the other, in the order in which they were made.
 */
final class AsyncCalls {
  /** Done when the last call's thread has ended. Guarded by this. */
  private CompletableFuture<?> last = CompletableFuture.completedFuture(null);

  /**
   * Makes a call as {@link #call} does, after all calls that this object made before.
   *
   * @param unwanted receives an outcome that comes after the future was cancelled
   */
  synchronized <T> CompletableFuture<T> inOrder(
      String name, Callable<T> body, Consumer<T> unwanted) {
    CompletableFuture<?> before = last;
    CompletableFuture<Void> ended = new CompletableFuture<>();
    last = ended;
    return call(
        name,
        () -> {
          try {
            before.get();
            return body.call();
          } finally {
            ended.complete(null);
          }
        },
        unwanted);
  }

  /**
   * The outcome of a call; cancelling it interrupts the call.
   *
   * @param unwanted receives an outcome that comes after the future was cancelled
   */
  static <T> CompletableFuture<T> call(String name, Callable<T> body, Consumer<T> unwanted) {
    CompletableFuture<T> future = new CompletableFuture<>();
    Thread thread = new Thread(() -> run(future, body, unwanted), name);
    thread.setDaemon(true);
    thread.start();
    future.whenComplete(
        (result, error) -> {
          if (future.isCancelled()) {
            thread.interrupt();
          }
        });
    return future;
  }

  /** The end of a call without an outcome; cancelling it interrupts the call. */
  static CompletableFuture<Void> run(String name, Runnable body) {
    return call(
        name,
        () -> {
          body.run();
          return null;
        },
        nothing -> {});
  }

  private static <T> void run(CompletableFuture<T> future, Callable<T> body, Consumer<T> unwanted) {
    try {
      T result = body.call();
      if (!future.complete(result)) {
        Thread.interrupted();
        unwanted.accept(result);
      }
    } catch (Exception | Error e) {
      future.completeExceptionally(e);
    }
  }
}
