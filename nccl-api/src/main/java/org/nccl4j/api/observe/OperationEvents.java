package org.nccl4j.api.observe;

import org.nccl4j.api.observe.flight.FlightRecorder;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.os.ThisProcess;

/**
 * Creates an event for Java Flight Recorder for each operation; active only while a recording has
 * these events enabled.
 */
final class OperationEvents implements OperationHook {
  private static final long PID = ThisProcess.pid();
  private static final String HOST = DebugLog.hostName();

  private final FlightRecorder log;
  private final FlightRecorder.Rank rank;
  private final OperationHooks hooks;
  private boolean listening;

  /** Time before the launch of the next operations that are told, or 0. */
  private long beganNanos;

  OperationEvents(FlightRecorder log, FlightRecorder.Rank rank, OperationHooks hooks) {
    this.log = log;
    this.rank = rank;
    this.hooks = hooks;
  }

  /** Adds or removes the hook as a recording enables the event; called by the observer. */
  void look() {
    boolean wanted = Events.areRecorded() && new Events.Operation().isEnabled();
    if (wanted != listening) {
      listening = wanted;
      if (listening) {
        hooks.add(this);
      } else {
        hooks.remove(this);
      }
    }
  }

  @Override
  public void launching(int launches) {
    beganNanos = System.nanoTime();
  }

  @Override
  public void launched(String what, long count, DataType type, int root, DeviceStream stream) {
    if (stream.isCapturing()) {
      return;
    }
    Events.Operation event = new Events.Operation();
    event.begin();
    event.launchNanos = beganNanos == 0 ? 0 : System.nanoTime() - beganNanos;
    event.communicator = rank.name();
    event.rank = rank.rank();
    event.operation = what;
    event.type = type.label();
    event.bytes = count * type.bytes();
    event.root = root;
    event.communicatorId = rank.communicator();
    event.number = log.collectives();
    event.pid = PID;
    event.host = HOST;
    stream.launchHostFunction(event::commit);
  }
}
