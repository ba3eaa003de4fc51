package org.nccl4j.device.host.stream;

import org.nccl4j.device.Arguments;
import org.nccl4j.device.DeviceEvent;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.host.memory.HostMemory;

/** An event of the host device: the last recording that was launched, and when it happened. */
public final class HostEvent extends DeviceEvent {
  /** One recording: the time it happened, 0 until then. */
  static final class Recording implements StreamOperation {
    private final HostStream stream;
    private final long position;
    private volatile long nanos;

    /** One that is to be launched into a stream, at a position or behind it. */
    Recording(HostStream stream, long position) {
      this.stream = stream;
      this.position = position;
    }

    boolean happened() {
      return nanos != 0;
    }

    @Override
    public void run(HostMemory send, HostMemory recv, long ticket) {
      nanos = Math.max(1, System.nanoTime());
    }
  }

  private volatile Recording last;
  private volatile boolean closed;

  /** An event that was never recorded. */
  public HostEvent() {}

  static HostEvent of(DeviceEvent event) {
    if (Arguments.notNull(event, "event") instanceof HostEvent host) {
      if (host.closed) {
        throw host.closed();
      }
      return host;
    }
    throw new InvalidArgumentException(
        ErrorId.EVENT,
        "an event of another device is given to the host device",
        "make it with the host device's createEvent");
  }

  /** A recording of this event has been launched. */
  void launched(Recording recording) {
    last = recording;
  }

  StreamOperation waiting() {
    Recording recording = last;
    return (send, recv, ticket) -> awaitRecording(recording);
  }

  private static void awaitRecording(Recording recording) {
    if (recording == null || recording.happened()) {
      return;
    }
    recording.stream.startNow();
    Backoff backoff = new Backoff(0);
    while (!recording.happened()) {
      backoff.idle();
    }
  }

  @Override
  public boolean isComplete() {
    Recording recording = of(this).last; // others may record anew, or close the event
    if (recording == null || recording.happened()) {
      return true;
    }
    recording.stream.startNow();
    return false;
  }

  @Override
  public boolean isKnownComplete() {
    Recording recording = of(this).last;
    return recording == null || recording.happened();
  }

  @Override
  public void synchronize() {
    Recording recording = of(this).last;
    if (recording != null && !recording.happened()) {
      recording.stream.waitUntil(recording.position + 1, Long.MAX_VALUE);
      awaitRecording(recording);
    }
  }

  @Override
  public double microsecondsSince(DeviceEvent earlier) {
    Recording to = of(this).last;
    Recording from = of(earlier).last;
    if (to == null || from == null || !to.happened() || !from.happened()) {
      throw new InvalidUsageException(
          ErrorId.NOT_HAPPENED,
          "the time between two events of which one has not happened",
          "record both, and synchronize the later one first");
    }
    return (to.nanos - from.nanos) / 1e3;
  }

  @Override
  public void close() {
    closed = true;
    last = null;
  }
}
