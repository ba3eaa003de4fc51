package org.nccl4j.device;

import java.util.function.Consumer;

/**
 * Calls that an engine holds back until their group's end: streams know nothing of them, and tell
 * the engine when a thread waits for a stream. Any thread.
 */
public final class HeldCalls {
  /** Null until an engine holds calls back for the first time. */
  private static volatile Consumer<DeviceStream> engine;

  private HeldCalls() {}

  /** Has an engine told, on the thread that is about to wait, of each stream that it waits for. */
  public static void tell(Consumer<DeviceStream> told) {
    engine = told;
  }

  /** True if an engine may hold calls back: most programs have no groups. */
  @HotPath
  public static boolean mayExist() {
    return engine != null;
  }

  /**
   * Announces that the thread is about to wait for all launches of a stream. Streams call it if
   * there may be held calls.
   */
  public static void awaits(DeviceStream stream) {
    engine.accept(stream);
  }
}
