package org.nccl4j.it.run;

import java.io.PrintWriter;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.nccl4j.device.InternalErrorException;

/** Ranks of a program, started from this machine: starts all, ends the rest when one fails. */
final class LocalLaunch {
  /** Time that ranks have to end by themselves. */
  static final Duration GRACE = Duration.ofSeconds(5);

  private static final int MOST_SIGNALS = 64;

  private final Duration grace;
  private final int nRanks;
  private final Placement placement;
  private final List<String> program;
  private final PrintWriter out;
  private final PrintWriter err;
  private final List<RunningRank> ranks = new ArrayList<>();

  /** No more ranks start: Ctrl-C, or a failure. Guarded by this. */
  private boolean ending;

  /**
   * One that has not begun.
   *
   * @param grace time from when ranks are told to end to when they are killed
   */
  LocalLaunch(
      Duration grace,
      int nRanks,
      Placement placement,
      List<String> program,
      PrintWriter out,
      PrintWriter err) {
    this.grace = grace;
    this.nRanks = nRanks;
    this.placement = placement;
    this.program = List.copyOf(program);
    this.out = out;
    this.err = err;
  }

  /**
   * Runs to the end.
   *
   * @return 0, or the exit status of the first rank that failed, or {@link
   *     ExitStatus#OUTPUT_CLOSED}
   */
  int run() {
    RankEnvironment environment = RankEnvironment.create(nRanks, placement);
    BlockingQueue<RunningRank> ended = new LinkedBlockingQueue<>();
    // Ctrl-C and kill end this process through its shutdown hooks: pass them on.
    Thread hook = new Thread(this::endAll);
    Runtime.getRuntime().addShutdownHook(hook);
    OrphanWatch watch = placement.isHere() ? OrphanWatch.start(environment.mark(), err) : null;
    try {
      for (int rank = 0; rank < nRanks; rank++) {
        start(rank, environment.of(rank), ended);
      }
      return await(ended);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new InternalErrorException("run was interrupted", "run the command again", e);
    } finally {
      endAll();
      if (watch != null) {
        watch.close();
      }
    }
  }

  private synchronized void start(
      int rank, Map<String, String> variables, BlockingQueue<RunningRank> ended) {
    if (!ending) {
      ranks.add(start(rank, variables, ended::add));
    }
  }

  private RunningRank start(int rank, Map<String, String> variables, Consumer<RunningRank> over) {
    if (placement.isHere()) {
      return RunningRank.start(rank, program, variables, out, err, over);
    }
    List<String> shell = placement.shell(rank, nRanks);
    return RunningRank.start(rank, shell, RemoteScript.of(variables, program), out, err, over);
  }

  private int await(BlockingQueue<RunningRank> ended) throws InterruptedException {
    for (int left = nRanks; left > 0; left--) {
      RunningRank rank = ended.take();
      if (rank.isUnread()) {
        return ExitStatus.OUTPUT_CLOSED;
      }
      rank.drain();
      int status = rank.process().exitValue();
      if (status != 0) {
        err.printf("nccl run: %s; ending the other %d%n", ending(rank, status), left - 1);
        if (placement.isUnreached(status)) {
          err.println("  remedy: " + Placement.UNREACHED_REMEDY);
        }
        err.flush();
        return status;
      }
      if (!rank.inputLost().isEmpty()) {
        err.printf("nccl run: rank %d: %s%n", rank.rank(), rank.inputLost());
        err.flush();
      }
    }
    return 0;
  }

  private String ending(RunningRank rank, int status) {
    if (placement.isUnreached(status)) {
      return "rank %d: %s".formatted(rank.rank(), placement.unreached(rank.rank(), nRanks, status));
    }
    String who = "rank %d (process %d) ".formatted(rank.rank(), rank.process().pid());
    int signal = status - 128;
    return signal > 0 && signal <= MOST_SIGNALS
        ? who + "was ended by signal " + signal + (signal == 9 ? " (often lack of memory)" : "")
        : who + "failed with exit status " + status;
  }

  private synchronized List<RunningRank> lastRanks() {
    ending = true;
    return ranks.stream().filter(rank -> rank.process().isAlive()).toList();
  }

  private void endAll() {
    List<RunningRank> alive = lastRanks();
    alive.forEach(RunningRank::terminate);
    long deadline = System.nanoTime() + grace.toNanos();
    try {
      for (RunningRank rank : alive) {
        long left = Math.max(0, deadline - System.nanoTime());
        if (!rank.process().waitFor(left, TimeUnit.NANOSECONDS)) {
          rank.kill();
        }
        rank.drain();
      }
    } catch (InterruptedException e) {
      alive.forEach(RunningRank::kill);
      Thread.currentThread().interrupt();
    }
  }
}
