package org.nccl4j.testkit;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicLong;
import org.nccl4j.api.spi.Connector;

/** Handles, and how connectors get connected or do not. */
final class ConnectChecks {
  private static final int CALLS = 1000;

  /**
   * Number of timed calls. The least counts, so that a busy machine does no harm: a wait delays
   * each call.
   */
  private static final int TIMED_CALLS = 21;

  private static final long MOST_NANOS = 20_000_000;

  private final CheckedTransport checked;

  ConnectChecks(CheckedTransport checked) {
    this.checked = checked;
  }

  List<Check> all() {
    return List.of(
        new Check("a handle has at most 1024 bytes", this::handles),
        new Check("two ranks connect, and connect then returns true again", this::twice),
        new Check("five ranks connect with each other", this::mesh),
        new Check("connecting never waits for a peer that never answers", this::silentPeer),
        new Check("a connector says what it waits for", this::description),
        new Check("a bad handle is an error and not a connection", this::badHandles),
        new Check("an unconnected connector gives no memory", this::unconnected));
  }

  private void handles() {
    try (Mesh mesh = new Mesh(checked, 2)) {
      Link link = Link.between(mesh, 0, 1);
      for (Connector end : List.of(link.sender(), link.receiver())) {
        int bytes = end.handle().length;
        Expect.that(bytes <= Connector.HANDLE_BYTES, "%s: a handle of %d bytes", end, bytes);
      }
    }
  }

  private void twice() {
    try (Mesh mesh = new Mesh(checked, 2)) {
      Link link = Link.connected(mesh, 0, 1);
      Link.connect(List.of(link));
    }
  }

  private void mesh() {
    int nRanks = 5;
    try (Mesh mesh = new Mesh(checked, nRanks)) {
      List<Link> links = new ArrayList<>();
      for (int from = 0; from < nRanks; from++) {
        for (int to = 0; to < nRanks; to++) {
          if (from != to) {
            links.add(Link.between(mesh, from, to));
          }
        }
      }
      Link.connect(links);
    }
  }

  private void silentPeer() {
    try (Mesh mesh = new Mesh(checked, 2)) {
      Link link = Link.between(mesh, 0, 1);
      byte[] remote = link.receiver().handle();
      link.sender().handle();
      AtomicLong least = new AtomicLong(Long.MAX_VALUE);
      Expect.that(
          endsInTime(
              () -> {
                for (int call = 0; call < TIMED_CALLS; call++) {
                  long start = System.nanoTime();
                  link.sender().connect(remote);
                  long nanos = System.nanoTime() - start;
                  least.accumulateAndGet(nanos, Math::min);
                }
              }),
          "%d calls of connect do not return",
          TIMED_CALLS);
      Expect.that(
          least.get() < MOST_NANOS,
          "%s: a call of connect takes %d ms, at most %d are allowed: it must not wait",
          link.sender(),
          least.get() / 1_000_000,
          MOST_NANOS / 1_000_000);
    }
  }

  private static boolean endsInTime(Runnable action) {
    CompletableFuture<Void> ended = CompletableFuture.runAsync(action);
    try {
      ended.get(60, TimeUnit.SECONDS);
      return true;
    } catch (TimeoutException e) {
      return false;
    } catch (ExecutionException e) {
      throw new AssertionError("connect fails: " + e.getCause(), e);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      return false;
    }
  }

  private void description() {
    try (Mesh mesh = new Mesh(checked, 2)) {
      Link link = Link.between(mesh, 0, 1);
      for (Connector end : List.of(link.sender(), link.receiver())) {
        String text = end.toString();
        String nothing = end.getClass().getName() + "@";
        Expect.that(!text.startsWith(nothing), "toString says nothing: %s", text);
      }
    }
  }

  private void badHandles() {
    List<byte[]> bad = new ArrayList<>();
    bad.add(new byte[0]);
    bad.add(new byte[Connector.HANDLE_BYTES]);
    byte[] random = new byte[64];
    new Random(1).nextBytes(random);
    bad.add(random);
    for (byte[] handle : bad) {
      try (Mesh mesh = new Mesh(checked, 2)) {
        Link link = Link.between(mesh, 0, 1);
        refuses(link.sender(), handle);
        refuses(link.receiver(), handle);
        refuses(link.sender(), link.sender().handle());
      }
    }
  }

  private static void refuses(Connector end, byte[] handle) {
    end.handle();
    Expect.failure(
        end + " with a bad handle of " + handle.length + " bytes",
        () -> {
          for (int call = 0; call < CALLS; call++) {
            Expect.that(!end.connect(handle), "%s says that it is connected", end);
          }
        });
  }

  private void unconnected() {
    try (Mesh mesh = new Mesh(checked, 2)) {
      Link link = Link.between(mesh, 0, 1);
      Expect.failure("connection() of a new sender", link.sender()::connection);
      Expect.failure("connection() of a new receiver", link.receiver()::connection);
    }
  }
}
