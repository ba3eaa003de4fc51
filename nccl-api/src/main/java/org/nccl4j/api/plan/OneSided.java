package org.nccl4j.api.plan;

import java.util.List;
import java.util.stream.Stream;

/** The one-sided operations, as the flight recorder and profilers name them beside {@link Func}. */
public enum OneSided {
  /** Puts data into a peer's window, then signals. */
  PUT_SIGNAL("put_signal", "putSignal"),
  /** Signals a peer. */
  SIGNAL("signal", "signal"),
  /** Waits for peers' signals. */
  WAIT_SIGNAL("wait_signal", "waitSignal");

  private final String label;
  private final String method;

  OneSided(String label, String method) {
    this.label = label;
    this.method = method;
  }

  /** The name in records. */
  public String label() {
    return label;
  }

  /** The name of the user's call. */
  public String method() {
    return method;
  }

  /** Its number in the flight recorder: after those of the collectives. */
  public int number() {
    return Func.values().length + ordinal();
  }

  /** The names of all operations, by number. */
  public static List<String> labels() {
    return Stream.concat(
            Stream.of(Func.values()).map(Func::label), Stream.of(values()).map(OneSided::label))
        .toList();
  }
}
