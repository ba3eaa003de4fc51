package org.nccl4j.api.bootstrap;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Function;
import java.util.stream.Stream;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.device.NcclException;

/** Ranks as threads of this process, and what became of each. */
public final class Ranks {
  /** Longer than any wait here: a machine may stand still for more than a minute. */
  public static final Duration LONG = Duration.ofSeconds(300);

  static final BootstrapOptions LOOPBACK = loopback(Map.of());

  /** A result or what was thrown. */
  record Ended<T>(T result, Throwable thrown) {
    T get() {
      if (thrown != null) {
        throw new AssertionError("the rank failed", thrown);
      }
      return result;
    }

    NcclException failure() {
      if (thrown instanceof NcclException failure) {
        return failure;
      }
      throw new AssertionError("no failure of nccl4j but " + result, thrown);
    }
  }

  private Ranks() {}

  /** Options for the loopback interface, with further settings. */
  static BootstrapOptions loopback(Map<String, String> further) {
    Map<String, String> settings = new HashMap<>();
    settings.put("NCCL_SOCKET_IFNAME", "lo");
    settings.put("NCCL_SOCKET_FAMILY", "AF_INET");
    settings.put(
        "NCCL4J_HEARTBEAT_TIMEOUT", Long.getLong("nccl4j.test.silence", LONG.toMillis()) + "ms");
    settings.putAll(further);
    return options(settings);
  }

  /** Options with nothing but these settings. */
  static BootstrapOptions options(Map<String, String> settings) {
    return BootstrapOptions.from(Settings.alone(settings));
  }

  static BootstrapId newId() {
    return BootstrapRoot.create(LOOPBACK, LONG);
  }

  static List<BootstrapId> newIds(int count) {
    return Stream.generate(Ranks::newId).limit(count).toList();
  }

  static JoinRequest request(BootstrapId id, int nRanks, int rank, Duration deadline) {
    return request(List.of(id), nRanks, rank, deadline);
  }

  static JoinRequest request(List<BootstrapId> ids, int nRanks, int rank, Duration deadline) {
    return new JoinRequest(nRanks, ids, rank, deadline, LOOPBACK);
  }

  /** All ranks of a new communicator with several roots, which the caller closes. */
  static List<Bootstrap> joined(int nRanks, int roots) {
    List<BootstrapId> ids = newIds(roots);
    return run(nRanks, rank -> TcpBootstrap.join(request(ids, nRanks, rank, LONG))).stream()
        .map(Ended::get)
        .toList();
  }

  /** The failures that each rank hears of. */
  static List<BlockingQueue<NcclException>> listen(List<Bootstrap> ranks) {
    List<BlockingQueue<NcclException>> heard = new ArrayList<>();
    for (Bootstrap each : ranks) {
      BlockingQueue<NcclException> queue = new LinkedBlockingQueue<>();
      each.onFailure(queue::add);
      heard.add(queue);
    }
    return heard;
  }

  /** The next of a queue; null if none comes for long. */
  public static <T> T next(BlockingQueue<T> from) throws InterruptedException {
    return from.poll(LONG.toSeconds(), TimeUnit.SECONDS);
  }

  /** Runs something for each index at the same time, and waits for all. */
  static <T> List<Ended<T>> run(int count, Function<Integer, T> body) {
    ExecutorService threads = Executors.newFixedThreadPool(count);
    try {
      List<Future<T>> futures = new ArrayList<>();
      for (int i = 0; i < count; i++) {
        int index = i;
        futures.add(threads.submit(() -> body.apply(index)));
      }
      List<Ended<T>> all = new ArrayList<>();
      for (Future<T> future : futures) {
        all.add(end(future));
      }
      return all;
    } finally {
      threads.shutdownNow();
    }
  }

  private static <T> Ended<T> end(Future<T> future) {
    try {
      return new Ended<>(future.get(2 * LONG.toSeconds(), TimeUnit.SECONDS), null);
    } catch (ExecutionException e) {
      return new Ended<>(null, e.getCause());
    } catch (InterruptedException | TimeoutException e) {
      return new Ended<>(null, e);
    }
  }

  /** All ranks of a new communicator do the same and close. */
  static <T> List<Ended<T>> together(int nRanks, Function<Bootstrap, T> body) {
    BootstrapId id = newId();
    return run(
        nRanks,
        rank -> {
          try (Bootstrap bootstrap = TcpBootstrap.join(request(id, nRanks, rank, LONG))) {
            return body.apply(bootstrap);
          }
        });
  }
}
