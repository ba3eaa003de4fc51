package org.nccl4j.device.support;

import java.util.function.Consumer;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.HotPath;

/**
 * Notifies an engine that holds calls back until their group's end when a thread waits for a
 * stream, since the stream does not know these calls. Any thread.
 */
public final class HeldCalls {
  /** Null until an engine holds calls back for the first time. */
  private static volatile Consumer<DeviceStream> engine;

  private HeldCalls() {}

  /**
   * Registers an engine's listener; it is called on the waiting thread, with each stream before the
   * wait.
   */
  public static void tell(Consumer<DeviceStream> told) {
    engine = told;
  }

  /** True if an engine may hold calls back; false in programs without groups. */
  @HotPath
  public static boolean mayExist() {
    return engine != null;
  }

  /**
   * Notifies the engine that the calling thread is about to wait for all launches of a stream.
   * Streams call it if {@link #mayExist}.
   */
  public static void awaits(DeviceStream stream) {
    engine.accept(stream);
  }
}
