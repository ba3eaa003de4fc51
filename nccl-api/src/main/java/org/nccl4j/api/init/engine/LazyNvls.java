package org.nccl4j.api.init.engine;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;
import java.util.function.Function;
import org.nccl4j.api.bootstrap.Bootstrap;
import org.nccl4j.api.multicast.MulticastProvider.Exchange;
import org.nccl4j.api.plan.NvlsAccess;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.device.kernel.Nvls;
import org.nccl4j.device.support.DaemonThread;
import org.nccl4j.device.support.Patience;

/**
 * The making of NVLS at the first operation that takes it. The rank that needs it calls all others
 * over the bootstrap; each makes its part on a thread of its own, so that no rank waits for another
 * one's operation: one thread may launch for several ranks. All ranks have made it in the end, or
 * none has. Any thread.
 */
final class LazyNvls implements NvlsAccess {
  private static final int BEGIN = -2; // RuntimeConnections' calls begin with a rank
  private static final int STEP = -3;
  private static final int VERDICT = -4;

  /** Longest time of a rank's step; a kernel that waits for another rank may hold it up. */
  private static final Duration STEP_PATIENCE = Duration.ofSeconds(20);

  /** Time between two questions whether the making is over. */
  private static final long ASK_NANOS = 500_000_000;

  /** Longest time between two looks at whether another rank or the user ends the communicator. */
  private static final long LOOK_MILLIS = 20;

  /** Longest wait for the thread's end. */
  private static final Duration LONGEST_STEP = Duration.ofSeconds(5);

  private final String name;
  private final Bootstrap bootstrap;
  private final List<byte[]> points;
  private final Nvls outline;
  private final Function<Exchange, Optional<Nvls>> maker;
  private final Consumer<String> refused;
  private final CallExchange.Answers answers;

  // All guarded by this.
  private boolean begun;
  private Consumer<NcclException> onFailure;
  private Thread worker;
  private Optional<Nvls> result; // null until it is known
  private NcclException failure;
  private boolean stopped;

  /**
   * A making that has not begun.
   *
   * @param name of the communicator
   * @param points meeting points of all ranks, by rank
   * @param outline the place without memory
   * @param maker makes the memory in step with all other ranks; empty if it cannot be made
   * @param refused told, once, why the making was given up, if it was: a rank took too long
   */
  LazyNvls(
      String name,
      Bootstrap bootstrap,
      List<byte[]> points,
      Nvls outline,
      Function<Exchange, Optional<Nvls>> maker,
      Consumer<String> refused) {
    this(name, bootstrap, points, outline, maker, refused, STEP_PATIENCE);
  }

  /** The same with another patience for a step. */
  LazyNvls(
      String name,
      Bootstrap bootstrap,
      List<byte[]> points,
      Nvls outline,
      Function<Exchange, Optional<Nvls>> maker,
      Consumer<String> refused,
      Duration patience) {
    this.name = name;
    this.bootstrap = bootstrap;
    this.points = points;
    this.outline = outline;
    this.maker = maker;
    this.refused = refused;
    this.answers = new CallExchange.Answers(bootstrap.nRanks(), patience);
  }

  /**
   * This rank has been made: takes part from now on.
   *
   * @param listener told, once, of an error after which the ranks are not together any more
   */
  synchronized void start(Consumer<NcclException> listener) {
    onFailure = listener;
    work();
  }

  /** True if a call of another rank is for this. */
  static boolean isFor(byte[] request) {
    int tag = request.length < Integer.BYTES ? 0 : ByteBuffer.wrap(request).getInt();
    return tag == BEGIN || tag == STEP || tag == VERDICT;
  }

  /** Takes another rank's call. */
  void called(byte[] request, Consumer<byte[]> answer) {
    ByteBuffer call = ByteBuffer.wrap(request);
    int tag = call.getInt();
    if (tag == STEP) {
      answers.called(call, answer);
      return;
    }
    if (tag == VERDICT) {
      String why = answers.verdict();
      answer.accept(why == null ? new byte[0] : why.getBytes(StandardCharsets.UTF_8));
      return;
    }
    boolean takesPart;
    synchronized (this) {
      takesPart = !stopped && failure == null;
      begun |= takesPart;
      work();
    }
    answer.accept(takesPart ? new byte[0] : null);
  }

  @Override
  public synchronized Nvls place() {
    return result == null ? outline : result.orElse(null);
  }

  @Override
  public Optional<Nvls> make() {
    boolean first;
    synchronized (this) {
      first = !begun && !stopped;
      begun |= first;
      work();
    }
    if (first) {
      tellOthers();
    }
    long end = bootstrap.exchangeEnd();
    long asked = System.nanoTime();
    while (true) {
      synchronized (this) {
        if (result == null) {
          await(end);
        }
        if (result != null) {
          return result;
        }
      }
      if (System.nanoTime() - asked > ASK_NANOS) {
        asked = System.nanoTime();
        askWhetherOver();
      }
    }
  }

  /**
   * Asks rank 0 whether a rank takes too long: then this rank's operation goes on, even if its own
   * thread is held up.
   */
  private void askWhetherOver() {
    if (bootstrap.rank() == 0) {
      String why = answers.verdict();
      if (why != null) {
        giveUp(why);
      }
      return;
    }
    byte[] request = ByteBuffer.allocate(Integer.BYTES).putInt(VERDICT).array();
    bootstrap
        .call(points.get(0), request)
        .thenAccept(
            why -> {
              if (why.length > 0) {
                giveUp(new String(why, StandardCharsets.UTF_8));
              }
            });
  }

  /** No rank has NVLS. */
  private void giveUp(String why) {
    synchronized (this) {
      if (result != null) {
        return;
      }
      result = Optional.empty();
      notifyAll();
    }
    refused.accept(why);
  }

  private void tellOthers() {
    byte[] request = ByteBuffer.allocate(Integer.BYTES).putInt(BEGIN).array();
    for (int rank = 0; rank < points.size(); rank++) {
      int other = rank;
      if (other != bootstrap.rank()) {
        CompletableFuture<byte[]> call = bootstrap.call(points.get(other), request);
        call.whenComplete((none, error) -> told(other, error));
      }
    }
  }

  private void told(int other, Throwable error) {
    if (error == null) {
      return;
    }
    NcclException cause =
        new SystemErrorException(
            ErrorId.UNREACHABLE,
            "rank %d of communicator %s cannot call rank %d to make NVLS: %s"
                .formatted(bootstrap.rank(), name, other, error.getMessage()),
            "see that its process still runs and its communicator is open, or set"
                + " NCCL_NVLS_ENABLE=0",
            error);
    // Not on a thread of the bootstrap, which would be the one that tells of it.
    DaemonThread.of(() -> fail(cause), "nccl4j-nvls-" + name).start();
  }

  /** Waits for a moment. */
  private void await(long endNanos) {
    check();
    bootstrap.checkFailure();
    if (System.nanoTime() - endNanos > 0) {
      throw new TimeoutException(
          ErrorId.NOT_CONNECTED,
          "rank %d of communicator %s has not made its part of NVLS by the deadline"
              .formatted(bootstrap.rank(), name),
          "look at the logs of all ranks, give more time (withInitTimeout or"
              + " NCCL4J_INIT_TIMEOUT), or set NCCL_NVLS_ENABLE=0");
    }
    try {
      wait(LOOK_MILLIS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new InvalidUsageException(
          ErrorId.INTERRUPTED,
          "rank %d's thread was interrupted while it waited for NVLS".formatted(bootstrap.rank()),
          "do not interrupt a thread that calls an operation",
          e);
    }
  }

  /** Throws if there will be no result. */
  private synchronized void check() {
    if (failure != null) {
      throw failure.again();
    }
    if (stopped) {
      throw new InvalidUsageException(
          ErrorId.CLOSED,
          "communicator %s is closed while rank %d makes NVLS".formatted(name, bootstrap.rank()),
          "close a communicator after its last operation");
    }
  }

  /** Has a thread make this rank's part. */
  private synchronized void work() {
    if (begun && worker == null && onFailure != null && !stopped) {
      worker = DaemonThread.of(this::run, "nccl4j-nvls-" + name);
      worker.start();
    }
  }

  private void run() {
    CallExchange exchange = new CallExchange(name, bootstrap, points, STEP, this::check, answers);
    try {
      Optional<Nvls> made = maker.apply(exchange);
      exchange.commit();
      synchronized (this) {
        result = made;
        notifyAll();
      }
    } catch (NcclException e) {
      if (exchange.over() == null) {
        fail(e);
      } else {
        giveUp(exchange.over());
      }
    } catch (RuntimeException | Error e) {
      fail(
          new InternalErrorException(
              "rank %d cannot make NVLS (%s)".formatted(bootstrap.rank(), e),
              "report this with the stack trace",
              e));
    }
  }

  private void fail(NcclException cause) {
    Consumer<NcclException> listener;
    synchronized (this) {
      if (failure != null || stopped || result != null) {
        return;
      }
      failure = cause;
      listener = onFailure;
      notifyAll();
    }
    answers.end();
    if (listener != null) {
      listener.accept(cause);
    }
  }

  /**
   * Ends it.
   *
   * @return whether no thread works on it any more
   */
  boolean stop() {
    Thread last;
    synchronized (this) {
      stopped = true;
      last = worker;
      notifyAll();
    }
    answers.end();
    return last == null || Patience.join(last, LONGEST_STEP);
  }
}
