package org.nccl4j.api.bootstrap;

import java.time.Duration;
import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.device.support.Patience;

/**
 * The order of one rank's collective calls that exchange over a bootstrap. A call has its turn when
 * all calls before it have ended, whatever their threads, so that all ranks make their exchanges in
 * the order of the calls. Calls inside a call, on its thread, belong to its turn. Any thread.
 */
public final class CallOrder {
  /** Exchanges of the longest call, each of which may take the whole deadline. */
  private static final int EXCHANGES = 4;

  private final long exchangeNanos;

  /** The longest time that a call waits inside its turn beside exchanges. */
  private volatile long operationNanos;

  /** The number of the next call. Guarded by this. */
  private long next;

  /** The number of the call that has its turn. Guarded by this. */
  private long turn;

  /** Later calls that have ended before their turn. Guarded by this. */
  private final Set<Long> left = new HashSet<>();

  /** Runs the call that has its turn; null before it has begun. Guarded by this. */
  private Thread runs;

  /**
   * No calls yet.
   *
   * @param exchange the longest time of an exchange
   */
  CallOrder(Duration exchange) {
    exchangeNanos = Math.min(Patience.nanos(exchange), Long.MAX_VALUE / 4 / EXCHANGES);
  }

  /** An order for another bootstrap, whose exchanges take as long. */
  public CallOrder another() {
    return new CallOrder(Duration.ofNanos(exchangeNanos));
  }

  /** Sets the longest time that calls wait for operations. */
  public void allowOperations(Duration deadline) {
    operationNanos = Math.min(Patience.nanos(deadline), Long.MAX_VALUE / 4);
  }

  /** A call's place in the order, until it is closed. */
  public final class Turn implements AutoCloseable {
    /** Negative inside another call. */
    private final long number;

    private Turn(long number) {
      this.number = number;
    }

    /**
     * Waits until all calls before this one have ended. The calling thread makes the call.
     *
     * @throws TimeoutException if one of them takes too long
     * @throws InvalidUsageException if the thread is interrupted
     */
    public void await() {
      awaitTurn(number);
    }

    /** The call has ended, or is not made. Does nothing the second time. */
    @Override
    public void close() {
      end(number);
    }
  }

  /** Takes the next place, for a call that another thread may make. */
  public synchronized Turn take() {
    return new Turn(next++);
  }

  /**
   * Begins a call on this thread, at its turn.
   *
   * @return to be closed at the call's end
   * @throws NcclException as {@link Turn#await}
   */
  public Turn enter() {
    Turn mine;
    synchronized (this) {
      mine = runs == Thread.currentThread() ? new Turn(-1) : take();
    }
    try {
      mine.await();
      return mine;
    } catch (NcclException e) {
      mine.close();
      throw e;
    }
  }

  /** True if no call is under way or waits for its turn. */
  public synchronized boolean areEnded() {
    return turn == next;
  }

  private synchronized void awaitTurn(long number) {
    long longest = EXCHANGES * exchangeNanos + operationNanos;
    long seen = turn;
    long began = System.nanoTime();
    while (turn < number) {
      if (turn != seen) {
        seen = turn;
        began = System.nanoTime();
      }
      long nanos = longest - (System.nanoTime() - began);
      if (nanos <= 0) {
        throw late(longest);
      }
      try {
        TimeUnit.NANOSECONDS.timedWait(this, nanos);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        throw new InvalidUsageException(
            ErrorId.INTERRUPTED,
            "a thread was interrupted while its call waited for the end of earlier calls",
            "do not interrupt a thread that waits for other ranks; use abort to end it",
            e);
      }
    }
    if (number >= 0) {
      runs = Thread.currentThread();
    }
  }

  private static TimeoutException late(long longest) {
    return new TimeoutException(
        ErrorId.STILL_RUNNING,
        "a collective call waits for an earlier one of the same communicator, which has not ended"
            + " within "
            + Patience.text(Duration.ofNanos(longest)),
        "look at the stack of the thread of the earlier call, or abort the communicator");
  }

  private synchronized void end(long number) {
    if (turn < number) {
      left.add(number);
    } else if (turn == number) {
      runs = null;
      turn++;
      while (left.remove(turn)) {
        turn++;
      }
      notifyAll();
    }
  }
}
