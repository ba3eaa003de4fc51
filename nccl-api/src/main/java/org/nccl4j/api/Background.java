package org.nccl4j.api;

import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;

/** Runs what waits for other ranks on a thread of its own. */
final class Background {
  private Background() {}

  /** The outcome of a call; cancelling it interrupts the call. */
  static <T> CompletableFuture<T> call(String name, Callable<T> body) {
    CompletableFuture<T> future = new CompletableFuture<>();
    Thread thread =
        new Thread(
            () -> {
              try {
                future.complete(body.call());
              } catch (Exception | Error e) {
                future.completeExceptionally(e);
              }
            },
            name);
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
}
