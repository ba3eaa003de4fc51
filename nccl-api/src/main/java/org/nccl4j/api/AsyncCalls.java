package org.nccl4j.api;

import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;
import org.nccl4j.api.bootstrap.CallOrder;

/** Runs calls that wait for other ranks, each on its own thread. */
final class AsyncCalls {
  private AsyncCalls() {}

  /**
   * Makes a call as {@link #call} does, after all calls that were made before it. A call that is
   * cancelled before its turn is not made.
   *
   * @param unwanted receives an outcome that comes after the future was cancelled
   */
  static <T> CompletableFuture<T> inOrder(
      CallOrder order, String name, Callable<T> body, Consumer<T> unwanted) {
    CallOrder.Turn turn = order.take();
    Callable<T> atItsTurn =
        () -> {
          try (turn) {
            turn.await();
            return body.call();
          }
        };
    try {
      return call(name, atItsTurn, unwanted);
    } catch (RuntimeException | Error e) {
      turn.close();
      throw e;
    }
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
