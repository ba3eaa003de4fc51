package org.nccl4j.device.kernel;

import java.util.function.Consumer;
import org.nccl4j.device.DeviceStream;

/**
 * Calls that an engine holds back until their group's end: streams know nothing of them, and tell
 * the engine when a thread waits for a stream. Any thread.
 */
public final class HeldCalls {
  private static volatile Consumer<DeviceStream> engine = stream -> {};

  private HeldCalls() {}

  /** Has an engine told, on the thread that is about to wait, of each stream that it waits for. */
  public static void tell(Consumer<DeviceStream> told) {
    engine = told;
  }

  /** Announces that the thread is about to wait for all launches of a stream. Streams call it. */
  public static void awaits(DeviceStream stream) {
    engine.accept(stream);
  }
}
