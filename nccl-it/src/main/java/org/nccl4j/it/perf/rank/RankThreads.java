package org.nccl4j.it.perf.rank;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.Device;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.NcclException;

/** A thread for each rank of this process, which {@code nccl tune} measures. */
public final class RankThreads implements AutoCloseable {
  private final List<ExecutorService> threads = new ArrayList<>();
  private final long patienceSeconds;

  /**
   * Work of a rank on its thread.
   *
   * @param <T> its result
   */
  @FunctionalInterface
  public interface Task<T> {
    T of(int rank) throws Exception;
  }

  /**
   * Threads of some ranks.
   *
   * @param patienceSeconds the most that one task of all may take
   */
  public RankThreads(int ranks, long patienceSeconds) {
    this.patienceSeconds = patienceSeconds;
    for (int rank = 0; rank < ranks; rank++) {
      threads.add(
          Executors.newSingleThreadExecutor(
              task -> {
                Thread thread = new Thread(task, "nccl4j-tune");
                thread.setDaemon(true);
                return thread;
              }));
    }
  }

  /**
   * Creates the communicators of all ranks. Those of the host device are created by threads that
   * stay on cores of their own, as perf's are, if there are enough: then they know their caches and
   * NUMA nodes.
   */
  public List<Communicator> create(List<Device> devices, CommunicatorConfig config) {
    RankSpec first = RankSpec.host(0, threads.size(), 0);
    if (devices.get(0).kind() != Device.Kind.HOST || !CoreBinding.hasCores(first)) {
      return Communicator.initAll(devices, config);
    }
    UniqueId id = UniqueId.create(config);
    all(rank -> rank); // starts the threads
    Set<Integer> before = CoreBinding.threads();
    List<Communicator> ranks =
        all(
            rank -> {
              CoreBinding.bind(first.at(rank, 1));
              return Communicator.initRank(threads.size(), id, rank, devices.get(rank), config);
            });
    CoreBinding.releaseOthers(before);
    return ranks;
  }

  /**
   * Does something on the threads of all ranks at the same time.
   *
   * @throws NcclException the error of the first rank that failed
   */
  public <T> List<T> all(Task<T> task) {
    List<Future<T>> results = new ArrayList<>();
    for (int rank = 0; rank < threads.size(); rank++) {
      int self = rank;
      results.add(threads.get(rank).submit(() -> task.of(self)));
    }
    return results.stream().map(this::result).toList();
  }

  private <T> T result(Future<T> task) {
    try {
      return task.get(patienceSeconds, TimeUnit.SECONDS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new InternalErrorException("tune was interrupted", "start it again", e);
    } catch (ExecutionException e) {
      if (e.getCause() instanceof NcclException nccl) {
        throw nccl;
      }
      throw new InternalErrorException(
          "a rank of tune failed (%s)".formatted(e.getCause()), "report this", e);
    } catch (TimeoutException e) {
      throw new org.nccl4j.device.TimeoutException(
          "a measurement was not done after %d s".formatted(patienceSeconds),
          "give it smaller sizes (-e), or a machine that does nothing else");
    }
  }

  @Override
  public void close() {
    threads.forEach(ExecutorService::shutdownNow);
  }
}
