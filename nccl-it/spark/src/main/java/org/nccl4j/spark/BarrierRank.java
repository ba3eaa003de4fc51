package org.nccl4j.spark;

import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicBoolean;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.Arguments;
import org.nccl4j.device.Device;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RemoteException;

/**
 * One task of a barrier stage as a rank of the stage's communicator. The rank is the number of the
 * task's partition. Spark's own all-gather passes the unique id from the first task to the others.
 *
 * <p>Closed by the user or, at the latest, when the task ends. If the task fails, the communicator
 * is aborted, so that the operations of the other ranks end with an error at once; also if Spark
 * kills the task.
 *
 * <p>Each attempt of a stage makes a communicator of its own. A task may make several, one after
 * the other or at the same time, if all tasks do so in the same order.
 */
public final class BarrierRank implements AutoCloseable {
  private final Communicator communicator;
  private final Device device;
  private final KillWatch watch;
  private final AtomicBoolean closed = new AtomicBoolean();

  private BarrierRank(StageTask task, Communicator communicator, Device device) {
    this.communicator = communicator;
    this.device = device;
    this.watch = KillWatch.start(task, communicator::abort);
  }

  /**
   * Joins on the GPU that Spark has given this task.
   *
   * @see #join(RankOptions)
   */
  public static BarrierRank join() {
    return join(RankOptions.gpu());
  }

  /**
   * Joins the communicator of the barrier stage whose task the calling thread runs. Every task of
   * the stage calls it. Returns when all have joined.
   *
   * @throws org.nccl4j.device.InvalidUsageException outside a barrier stage; if Spark gave this
   *     task no address of a GPU, or several; if there is no GPU; if two tasks have the same GPU
   * @throws org.nccl4j.device.InvalidArgumentException if there is no GPU of that number
   * @throws RemoteException naming the task that cannot join, and its problem
   * @throws org.nccl4j.device.TimeoutException if the other tasks do not come in time
   */
  public static BarrierRank join(RankOptions options) {
    return join(SparkTask.current(), Arguments.notNull(options, "options of the rank"));
  }

  static BarrierRank join(StageTask task, RankOptions options) {
    CommunicatorConfig config = config(task, options);
    Device device = null;
    NcclException problem = null;
    String id = "";
    try {
      device = TaskDevice.of(task, options);
      // A root listens longer than all tasks may take to come.
      id = task.rank() == 0 ? UniqueId.create(rootConfig(config, options)).toString() : "";
    } catch (NcclException e) {
      problem = e;
    }
    StartMessage own = new StartMessage(id, problem == null ? "" : problem.problem());
    Waiting waiting = new Waiting(task);
    List<StartMessage> all = waiting.forAll(own, options.startTimeout());
    if (problem != null) {
      throw problem;
    }
    refuseUnable(task, all);
    CompletableFuture<Communicator> made =
        Communicator.initRankAsync(
            task.nRanks(), UniqueId.parse(all.get(0).id()), task.rank(), device, config);
    BarrierRank rank = new BarrierRank(task, waiting.forCreation(made), device);
    task.whenOver(rank::abort, rank::close);
    return rank;
  }

  private static CommunicatorConfig config(StageTask task, RankOptions options) {
    CommunicatorConfig config = options.config();
    return config.name().isEmpty() ? config.withName("spark-" + task.stage()) : config;
  }

  private static CommunicatorConfig rootConfig(CommunicatorConfig config, RankOptions options) {
    return config.withInitTimeout(options.startTimeout());
  }

  private static void refuseUnable(StageTask task, List<StartMessage> all) {
    for (int other = 0; other < all.size(); other++) {
      if (!all.get(other).problem().isEmpty()) {
        throw new RemoteException(
            "%s cannot join, because task %d cannot: %s"
                .formatted(task.place(), other, all.get(other).problem()),
            "look at the remedy in that task's error");
      }
    }
  }

  /** The communicator, of as many ranks as the stage has tasks. */
  public Communicator communicator() {
    return communicator;
  }

  /** The device of this rank's buffers and streams. */
  public Device device() {
    return device;
  }

  /** This task's rank, the number of its partition. */
  public int rank() {
    return communicator.rank();
  }

  /** The number of ranks, which is the number of partitions. */
  public int nRanks() {
    return communicator.nRanks();
  }

  /** Ends the operations of all ranks with an error, unless this rank is closed. */
  public void abort() {
    if (!closed.get()) {
      communicator.abort();
    }
  }

  /** Closes the communicator, as {@link Communicator#close()} does. Idempotent. */
  @Override
  public void close() {
    if (closed.compareAndSet(false, true)) {
      try {
        communicator.close();
      } finally {
        watch.stop();
      }
    }
  }
}
