package org.nccl4j.api.bootstrap;

import java.time.Duration;
import java.util.function.Consumer;
import org.nccl4j.api.bootstrap.connection.EventLoop;

/**
 * Sends heartbeats over a connection, and detects when none come back. If this process was itself
 * stopped for a while, that is not counted as the other's silence.
 *
 * <p>Owner thread: the loop's.
 */
final class HeartbeatSender {
  /** Enough that a silence is noticed well within the time that it may last. */
  private static final int BEATS = 20;

  /** After how many beats without an answer the other side counts as silent. */
  private static final int MISSED = 18;

  /** Number of late beats from which this process counts as stopped itself. */
  private static final int STOPPED = 5;

  private final EventLoop loop;
  private final Duration silence;
  private final Runnable beat;
  private final Consumer<Duration> silent;
  private EventLoop.Timer timer;
  private long heardNanos;
  private long dueNanos;

  /**
   * None is sent yet.
   *
   * @param silence within how long the other side's silence is to be noticed
   * @param beat sends a sign of life
   * @param silent called once when the other side has been silent for too long, with how long
   */
  HeartbeatSender(EventLoop loop, Duration silence, Runnable beat, Consumer<Duration> silent) {
    this.loop = loop;
    this.silence = silence;
    this.beat = beat;
    this.silent = silent;
  }

  /** Begins. */
  void start() {
    heardNanos = System.nanoTime();
    beat.run();
    next();
  }

  /** The other side has given a sign of life. */
  void heard() {
    heardNanos = System.nanoTime();
  }

  /** Ends. */
  void stop() {
    if (timer != null) {
      timer.cancel();
      timer = null;
    }
  }

  private void next() {
    Duration interval = silence.dividedBy(BEATS);
    dueNanos = System.nanoTime() + interval.toNanos();
    timer = loop.after(interval, this::tick);
  }

  private void tick() {
    long now = System.nanoTime();
    if (now - dueNanos > STOPPED * (silence.toNanos() / BEATS)) {
      heardNanos = now;
    }
    if (now - heardNanos > MISSED * (silence.toNanos() / BEATS)) {
      timer = null;
      silent.accept(Duration.ofNanos(now - heardNanos));
      return;
    }
    beat.run();
    next();
  }
}
