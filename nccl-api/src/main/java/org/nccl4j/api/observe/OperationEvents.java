package org.nccl4j.api.observe;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import org.nccl4j.api.observe.flight.FlightRecorder;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.os.ThisProcess;

/**
 * Creates an event for Java Flight Recorder for each operation, or for some of them where there are
 * many ({@link Thinning}); active only while a recording has these events enabled. An operation
 * that is left out costs a few reads.
 */
final class OperationEvents implements OperationHook {
  private static final long PID = ThisProcess.pid();
  private static final String HOST = DebugLog.hostName();
  private static final VarHandle OTHERS;

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
  private boolean listening;

  /** Time before the launch of the next operations that are told, or 0 where none is recorded. */
  private long beganNanos;

  /** The number of the last collective. */
  private long collectives;

  /**
   * Operations told that are no collectives. Written by the launching thread, opaque; the observer
   * may read an older number.
   */
  private long others;

  OperationEvents(FlightRecorder log, FlightRecorder.Rank rank, OperationHooks hooks, int rate) {
    this.log = log;
    this.rank = rank;
    this.hooks = hooks;
    this.thinning = new Thinning(rate, System.nanoTime());
  }

  /** Adds or removes the hook as a recording enables the event; called by the observer. */
  void look() {
    // A launch may be of several sends, which only the hook counts.
    long launched =
        listening ? log.collectives() + (long) OTHERS.getOpaque(this) : log.launchedSoFar();
    thinning.look(launched, System.nanoTime());
    boolean wanted = Events.areRecorded() && new Events.Operation().isEnabled();
    if (wanted != listening) {
      listening = wanted;
      if (listening) {
        thinning.countFrom(log.collectives() + (long) OTHERS.getOpaque(this));
        hooks.add(this);
      } else {
        thinning.countFrom(log.launchedSoFar());
        hooks.remove(this);
      }
    }
  }

  @Override
  public void launching(int launches) {
    // The numbers that the operations get are known of a single launch alone.
    beganNanos =
        launches > 1 || thinning.keeps(log.collectives() + 1) || thinning.keeps(others + 1)
            ? System.nanoTime()
            : 0;
  }

  @Override
  public void launched(String what, long count, DataType type, int root, DeviceStream stream) {
    long number = log.collectives();
    boolean isCollective = number != collectives;
    collectives = number;
    if (!isCollective) {
      OTHERS.setOpaque(this, others + 1);
    }
    if (!thinning.keeps(isCollective ? number : others) || stream.isCapturing()) {
      return;
    }
    Events.Operation event = new Events.Operation();
    event.begin();
    event.launchNanos = beganNanos == 0 ? 0 : System.nanoTime() - beganNanos;
    event.every = thinning.every();
    event.communicator = rank.name();
    event.rank = rank.rank();
    event.operation = what;
    event.type = type.label();
    event.bytes = count * type.bytes();
    event.root = root;
    event.communicatorId = rank.communicator();
    event.number = number;
    event.pid = PID;
    event.host = HOST;
    stream.launchHostFunction(event::commit);
  }
}
