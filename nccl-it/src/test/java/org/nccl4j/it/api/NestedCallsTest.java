package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Window;
import org.nccl4j.api.spi.ProfilerProvider;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.it.sample.CompiledPlugins;

/** Puts and signals that a thread calls inside another, since it runs a host function there. */
@Timeout(600)
class NestedCallsTest {
  private static final String NAME = "org.example.names.Names";
  private static final String SOURCE =
      """
      package org.example.names;

      import java.util.Optional;
      import java.util.Queue;
      import java.util.concurrent.ConcurrentLinkedQueue;
      import org.nccl4j.api.spi.*;

      public final class Names implements ProfilerProvider {
        public static final Queue<String> TOLD = new ConcurrentLinkedQueue<>();

        @Override
        public String name() {
          return "names";
        }

        @Override
        public Optional<Profiler> open(String communicator, int rank, int nRanks) {
          return Optional.of(
              new Profiler() {
                @Override
                public int activation() {
                  return LAUNCHES | ENDS;
                }

                @Override
                public void launched(Operation operation) {
                  TOLD.add(communicator + " launches " + operation);
                }

                @Override
                public void ended(Operation operation) {
                  TOLD.add(communicator + " ends " + operation);
                }
              });
        }
      }
      """;

  /** Launches that a stream has room for. */
  private static final int ROOM = 1024;

  /** On a busy machine another thread may run the host function. */
  private static final int MOST_TRIES = 20;

  @TempDir private Path folder;

  private static CommunicatorConfig config(String name) {
    return CommunicatorConfig.defaults().withName(name).with("NCCL_PROFILER_PLUGIN", "names");
  }

  @Test
  void aPutIsToldAsItself() throws Exception {
    try (CompiledPlugins plugins =
            CompiledPlugins.of(folder, SOURCE, Map.of(ProfilerProvider.class, NAME));
        Ranks outer = new Ranks(2, config("outer"));
        Ranks inner = new Ranks(2, config("inner"));
        DeviceMemory memory = Devices.host().memAlloc(64);
        DeviceMemory source = Ranks.floats(1, i -> 1)) {
      @SuppressWarnings("unchecked") // as SOURCE says
      Queue<String> told = (Queue<String>) plugins.load(NAME).getField("TOLD").get(null);
      List<Window> windows = Ranks.all(outer.communicators, c -> c.registerWindow(memory));
      Ranks.all(inner.communicators, c -> c.registerWindow(memory));
      AtomicReference<Thread> ran = new AtomicReference<>();
      int tries = 0;
      do {
        told.clear();
        tries++;
        try (DeviceStream stream = Devices.host().createStream()) {
          stream.launchHostFunction(
              () -> {
                ran.set(Thread.currentThread());
                inner.communicators.get(0).signal(1, inner.streams.get(0));
              });
          for (int n = 1; n < ROOM; n++) {
            stream.launchHostFunction(() -> {});
          }
          outer
              .communicators
              .get(0)
              .putSignal(source, 1, DataType.FLOAT32, 1, windows.get(0), 0, stream);
          stream.synchronize();
        }
        inner.streams.get(0).synchronize();
      } while (ran.get() != Thread.currentThread() && tries < MOST_TRIES);
      assertEquals(Thread.currentThread(), ran.get(), "nobody ran it inside the put");
      String put = "Operation[number=%d, name=put_signal, count=1, bytes=4, root=1]";
      String signal = "Operation[number=%d, name=signal, count=0, bytes=0, root=1]";
      assertTrue(told.contains("outer launches " + put.formatted(tries)), told.toString());
      assertTrue(told.contains("outer ends " + put.formatted(tries)), told.toString());
      assertTrue(told.contains("inner launches " + signal.formatted(tries)), told.toString());
      assertEquals(4, told.size(), told.toString());
    }
  }
}
