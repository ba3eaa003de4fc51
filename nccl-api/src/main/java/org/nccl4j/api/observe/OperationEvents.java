package org.nccl4j.api.observe;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.List;
import java.util.function.LongConsumer;
import org.nccl4j.api.observe.flight.FlightRecorder;
import org.nccl4j.api.observe.span.OperationSpan;
import org.nccl4j.api.observe.span.SpanLog;
import org.nccl4j.api.observe.span.SpanLogs;
import org.nccl4j.api.observe.times.StreamTimes;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.os.ThisProcess;

/**
 * Creates an event for Java Flight Recorder, and a span for observers of the job, for each
 * operation, or for some of them where there are many ({@link Thinning}); active only while a
 * recording has these events enabled or an observer asks ({@link SpanLogs}).
 */
final class OperationEvents implements OperationHook {
  private static final long PID = ThisProcess.pid();
  private static final String HOST = DebugLog.hostName();
  private static final VarHandle OTHERS;

  private static final long UNKNOWN = -1;

  /** Operations of the other kind that may come before one that is expected. */
  private static final int MOST_MARKS = 16;

  static {
    try {
      OTHERS = MethodHandles.lookup().findVarHandle(OperationEvents.class, "others", long.class);
    } catch (ReflectiveOperationException e) {
      throw new ExceptionInInitializerError(e);
    }
  }

  private final FlightRecorder log;
  private final FlightRecorder.Rank rank;
  private final OperationHooks hooks;
  private final Thinning thinning;
  private final Object job;
  private final ChunkEnds chunkEnds;
  private boolean listening;

  /** True once nothing is to be recorded any more. Guarded by this. */
  private boolean ended;

  /** Of the recordings since the hook was added. */
  private volatile StreamTimes times = new StreamTimes();

  /** True while a recording has the event. Written by the observer. */
  private volatile boolean recorded;

  /** Where observers of the job collect spans. Written by the observer. */
  private volatile List<SpanLog> logs = List.of();

  /** Called at the end of each chunk of a recording, which would else lack what has just ended. */
  private final LongConsumer atChunkEnd = end -> times.settle(/* all= */ false, end);

  /** Time before the launch of the next operations that are told, or 0 where none is recorded. */
  private long beganNanos;

  /** True until the first operation is told after the hook was added. Written before that. */
  private boolean isNew;

  /** The number of the last collective. */
  private long collectives;

  /**
   * Operations seen that are no collectives. Written by the launching thread, opaque; the observer
   * may read an older number.
   */
  private long others;

  private final Expected nextCollective = new Expected();
  private final Expected nextOther = new Expected();

  /** The end of the operation told last; null unless the next one may be recorded. */
  private End last;

  /** The end of the last operation before those that are told now; null likewise. */
  private End before;

  OperationEvents(
      FlightRecorder log, FlightRecorder.Rank rank, OperationHooks hooks, int rate, Object job) {
    this(log, rank, hooks, rate, job, ChunkEnds.OF_PROCESS, System.nanoTime());
  }

  /**
   * Events of a rank that has launched nothing.
   *
   * @param chunkEnds of the recordings
   * @param nanos the time
   */
  OperationEvents(
      FlightRecorder log,
      FlightRecorder.Rank rank,
      OperationHooks hooks,
      int rate,
      Object job,
      ChunkEnds chunkEnds,
      long nanos) {
    this.log = log;
    this.rank = rank;
    this.hooks = hooks;
    this.job = job;
    this.chunkEnds = chunkEnds;
    this.thinning = new Thinning(rate, nanos);
  }

  /** Adds or removes the hook as recordings and observers want it; called by the observer. */
  void look() {
    look(System.nanoTime());
  }

  /** Looks as {@link #look()} does, at a time. */
  void look(long nanos) {
    // A launch may be of several sends, which only the hook counts.
    long launched =
        listening ? log.collectives() + (long) OTHERS.getOpaque(this) : log.launchedSoFar();
    long every = thinning.every();
    thinning.look(launched, nanos);
    record(Events.areRecorded() && new Events.Operation().isEnabled());
    logs = hasEnded() ? List.of() : SpanLogs.of(job);
    boolean wanted = recorded || !logs.isEmpty();
    if (wanted != listening) {
      listening = wanted;
      if (listening) {
        thinning.countFrom(log.collectives() + (long) OTHERS.getOpaque(this));
        isNew = true;
        times = new StreamTimes();
        hooks.add(this);
      } else {
        thinning.countFrom(log.launchedSoFar());
        hooks.remove(this);
      }
    } else if (thinning.every() != every) {
      hooks.askAnew();
    }
  }

  private synchronized boolean hasEnded() {
    return ended;
  }

  private synchronized void record(boolean wanted) {
    boolean begins = wanted && !ended;
    if (begins != recorded) {
      recorded = begins;
      if (begins) {
        chunkEnds.add(atChunkEnd);
      } else {
        chunkEnds.remove(atChunkEnd);
      }
    }
  }

  /** Ends it for good: later looks do nothing. */
  void end() {
    synchronized (this) {
      ended = true;
    }
    record(false);
    hooks.remove(this);
  }

  /** The end of an operation that has no event. */
  private static final class End {
    /** 0 until then. Written and read by the thread that takes the times. */
    volatile long nanos;
  }

  /** The next operation of a kind, if it is to be recorded. */
  private final class Expected {
    private long number;
    private int marks;

    /** The first number looked at ahead, while {@link Thinning#every} was so. */
    private long from;

    private long every;

    /** All before it from there on are left out. */
    private long to;

    /** Returns how many numbers from this one on are left out for certain. */
    int ahead(long next) {
      if (every != thinning.every() || next < from || next >= to) {
        every = thinning.every();
        from = next;
        to = next + thinning.leftOutFrom(next);
      }
      return (int) (to - next);
    }

    /** True if the end before it is to be known; others of this kind may not come for long. */
    boolean wants(long next) {
      if (!thinning.keeps(next)) {
        return false;
      }
      marks = number == next ? marks + 1 : 1;
      number = next;
      return marks <= MOST_MARKS;
    }
  }

  @Override
  public int unwanted() {
    if (isNew) {
      return 0;
    }
    int most = Math.min(nextCollective.ahead(collectives + 1), nextOther.ahead(others + 1));
    return Math.max(0, most - 1); // the one before is told for its end
  }

  @Override
  public void launching(int launches, int untold) {
    long number = log.collectives();
    before = untold == 0 && !isNew ? last : null;
    if (!isNew) {
      OTHERS.setOpaque(this, Math.max(others, others + untold - (number - collectives)));
    }
    isNew = false;
    collectives = number;
    last = null;
    // The numbers that the operations get are known of a single launch alone.
    beganNanos =
        launches > 1 || thinning.keeps(number + 1) || thinning.keeps(others + 1)
            ? System.nanoTime()
            : 0;
  }

  @Override
  public void launched(String what, long count, DataType type, int root, DeviceStream stream) {
    if (isNew) {
      return; // added after the launch had begun
    }
    long number = log.collectives();
    boolean isCollective = number != collectives;
    collectives = number;
    if (!isCollective) {
      OTHERS.setOpaque(this, others + 1);
    }
    boolean isKept = thinning.keeps(isCollective ? number : others);
    boolean isBeforeKept =
        thinning.every() > 1 && (nextCollective.wants(number + 1) | nextOther.wants(others + 1));
    if (!isKept && !isBeforeKept || stream.isCapturing()) {
      return;
    }
    if (isKept) {
      record(what, count, type, root, stream);
    }
    if (isBeforeKept) {
      End end = new End();
      times.add(stream, nanos -> end.nanos = nanos);
      last = end;
    }
  }

  private void record(String what, long count, DataType type, int root, DeviceStream stream) {
    End ended = before;
    Events.Operation event = recorded ? event(what, count, type, root) : null;
    // Right after the event's own begin: the wait is a part of its duration.
    long begin = System.nanoTime();
    if (event != null) {
      event.launchNanos = beganNanos == 0 ? 0 : begin - beganNanos;
    }
    List<SpanLog> observed = logs;
    OperationSpan span = observed.isEmpty() ? null : span(what, count, type, root, begin);
    times.add(
        stream,
        end -> {
          long ready = ended == null ? 0 : ended.nanos;
          if (event != null) {
            event.waitNanos = ready == 0 ? UNKNOWN : Math.max(0, ready - begin);
            event.runNanos = Math.max(0, end - begin);
            event.commit();
          }
          observed.forEach(each -> each.add(span, ready, end));
        });
  }

  @Override
  public void settle(boolean all, long end) {
    times.settle(all, end);
  }

  @Override
  public void close() {
    record(false);
    times.close();
  }

  private OperationSpan span(String what, long count, DataType type, int root, long nanos) {
    return new OperationSpan(
        rank.communicator(),
        rank.name(),
        rank.rank(),
        /* row= */ "",
        what,
        type.label(),
        count * type.bytes(),
        root,
        collectives,
        thinning.every(),
        beganNanos == 0 ? nanos : beganNanos,
        0,
        0);
  }

  private Events.Operation event(String what, long count, DataType type, int root) {
    Events.Operation event = new Events.Operation();
    event.every = thinning.every();
    event.communicator = rank.name();
    event.rank = rank.rank();
    event.operation = what;
    event.type = type.label();
    event.bytes = count * type.bytes();
    event.root = root;
    event.communicatorId = rank.communicator();
    event.number = collectives;
    event.pid = PID;
    event.host = HOST;
    event.begin();
    return event;
  }
}
