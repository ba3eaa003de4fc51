package org.nccl4j.api.observe;

import org.nccl4j.api.observe.flight.FlightRecorder;
import org.nccl4j.api.observe.flight.RankReport;
import org.nccl4j.api.observe.flight.RankReport.Operation;
import org.nccl4j.api.observe.span.OperationSpan;
import org.nccl4j.api.observe.span.SpanLogs;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.kernel.KernelCommunicator;

/**
 * Creates the events of one rank for Java Flight Recorder, and its spans for observers of the job,
 * from the flight recorder. Owner thread: the observer's.
 */
final class JfrRecorder {
  private static final long PERIOD_NANOS = 1_000_000_000L;

  private final FlightRecorder log;
  private final FlightRecorder.Rank rank;
  private final OperationEvents operations;
  private final Object job;
  private long lastNanos = System.nanoTime();
  private long launched;
  private long ended;
  private boolean failed;

  /**
   * The events of a rank.
   *
   * @param rate operations a second that are recorded; 0: all
   * @param job whose observers may have operations recorded too
   */
  JfrRecorder(
      FlightRecorder log, FlightRecorder.Rank rank, OperationHooks hooks, int rate, Object job) {
    this.log = log;
    this.rank = rank;
    this.job = job;
    this.operations = new OperationEvents(log, rank, hooks, rate, job);
    operations.look();
  }

  /** Ends them; also where the communicator goes on, such as after a suspension. */
  void close() {
    operations.end();
  }

  void look(KernelCommunicator kernels) {
    operations.look();
    NcclException failure = kernels.failure();
    if (failure != null && !failed) {
      failed = true;
      moment("failure (%s)".formatted(failure.id().text()), /* peer= */ -1);
      if (Events.areRecorded()) {
        fail(failure);
      }
    }
    long now = System.nanoTime();
    if (now - lastNanos >= PERIOD_NANOS) {
      lastNanos = now;
      if (Events.areRecorded() || SpanLogs.areAny()) {
        second();
      }
    }
  }

  /** Adds a moment to the recordings of the job's observers. */
  private void moment(String what, int peer) {
    if (SpanLogs.areAny()) {
      long now = System.nanoTime();
      OperationSpan span =
          OperationSpan.other(rank.communicator(), rank.name(), rank.rank(), "", what, peer);
      SpanLogs.add(job, span.with(0, 0, now), now);
    }
  }

  private void fail(NcclException failure) {
    Events.Failure event = new Events.Failure();
    if (event.shouldCommit()) {
      event.communicator = rank.name();
      event.rank = rank.rank();
      event.communicatorId = rank.communicator();
      event.code = failure.code().name();
      event.message = failure.getMessage();
      event.commit();
    }
  }

  private void second() {
    boolean recorded = Events.areRecorded();
    RankReport report = log.report(rank.operations());
    if (isStill(report)) {
      moment("waits for rank %d".formatted(report.waitsFor()), report.waitsFor());
    }
    if (recorded) {
      record(report);
    }
    launched = report.launched();
    ended = report.ended();
  }

  private static boolean isStill(RankReport report) {
    return report.current() != null
        && report.stillMillis() >= Diagnosis.STILL_MILLIS
        && !report.failed();
  }

  private void record(RankReport report) {
    Events.Progress progress = new Events.Progress();
    if (report.launched() > launched || report.ended() > ended) {
      Operation last = report.last();
      progress.communicator = rank.name();
      progress.rank = rank.rank();
      progress.launched = report.launched() - launched;
      progress.ended = report.ended() - ended;
      progress.operation = last == null ? "" : last.text();
      progress.bytes = last == null ? 0 : last.bytes();
      progress.commit();
    }
    if (isStill(report)) {
      Events.Stall stall = new Events.Stall();
      stall.communicator = rank.name();
      stall.rank = rank.rank();
      stall.communicatorId = rank.communicator();
      stall.operation = report.current().text();
      stall.waitsFor = report.waitsFor();
      stall.millis = report.stillMillis();
      stall.commit();
    }
  }
}
