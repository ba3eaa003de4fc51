package org.nccl4j.it.sample;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.logging.Filter;
import java.util.logging.Logger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.spi.ProfilerProvider;
import org.nccl4j.api.spi.TunerProvider;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;
import org.nccl4j.it.api.SharedSegments;

/** Tuners and profilers that throw: they are named, and a profiler ends no operation. */
@Timeout(600)
class FaultyPluginsTest {
  private static final String SOURCE =
      """
      package org.example.faulty;

      import java.util.Optional;
      import org.nccl4j.api.spi.*;

      public final class Faulty {
        public static final class Tuning implements TunerProvider {
          @Override
          public String name() {
            return "faulty-tuner";
          }

          @Override
          public Tuner open(TunerContext context) {
            if (context.communicator().equals("opens")) {
              throw new IllegalStateException("no table");
            }
            return (collective, bytes, type, table) -> {
              throw new IllegalStateException("no idea");
            };
          }
        }

        public static final class Profiling implements ProfilerProvider {
          @Override
          public String name() {
            return "faulty-profiler";
          }

          @Override
          public Optional<Profiler> open(String communicator, int rank, int nRanks) {
            if (communicator.equals("null")) {
              return null;
            }
            return Optional.of(
                new Profiler() {
                  @Override
                  public int activation() {
                    return communicator.equals("launches") ? LAUNCHES : ENDS;
                  }

                  @Override
                  public void launched(Operation operation) {
                    throw new IllegalStateException("not now");
                  }

                  @Override
                  public void ended(Operation operation) {
                    throw new IllegalStateException("not ever");
                  }
                });
          }
        }
      }
      """;

  private final List<String> said = new CopyOnWriteArrayList<>();
  private final Logger logger = Logger.getLogger("org.nccl4j.PROFILE");
  private final Filter usual = logger.getFilter();

  @TempDir private Path folder;
  private CompiledPlugins plugins;

  @BeforeEach
  void compile() throws Exception {
    plugins =
        CompiledPlugins.of(
            folder,
            SOURCE,
            Map.of(
                TunerProvider.class,
                "org.example.faulty.Faulty$Tuning\norg.example.faulty.Missing",
                ProfilerProvider.class,
                "org.example.faulty.Missing\norg.example.faulty.Faulty$Profiling"));
    logger.setFilter(line -> !said.add(line.getMessage()));
  }

  @AfterEach
  void restore() throws Exception {
    logger.setFilter(usual);
    plugins.close();
  }

  private static CommunicatorConfig config(String name, String tuner, String profiler) {
    return CommunicatorConfig.defaults()
        .withName(name)
        .with("NCCL_TUNER_PLUGIN", tuner)
        .with("NCCL_PROFILER_PLUGIN", profiler);
  }

  private static void assertBlamed(String who, Runnable call) {
    NcclException e = assertThrows(NcclException.class, call::run);
    assertEquals(ErrorId.PLUGIN, e.id(), e.getMessage());
    assertTrue(e.getMessage().contains("the " + who), e.getMessage());
    assertTrue(e.remedy().contains("NCCL_TUNER_PLUGIN=none"), e.remedy());
  }

  private static void reduce(CommunicatorConfig config) {
    try (Communicator comm = Communicator.initAll(List.of(Devices.host()), config).get(0);
        DeviceStream stream = Devices.host().createStream();
        DeviceMemory data = Devices.host().allocate(64)) {
      for (int n = 0; n < 3; n++) {
        comm.allReduce(data, data, 16, DataType.FLOAT32, RedOp.SUM, stream);
        stream.synchronize();
      }
      assertTrue(comm.asyncError().isEmpty());
    }
  }

  @Test
  void whatThrowsAtCreationIsNamed() {
    assertBlamed("tuner faulty-tuner", () -> reduce(config("opens", "faulty-tuner", "none")));
    assertBlamed("profiler faulty-profiler", () -> reduce(config("null", "none", "")));
  }

  @Test
  void aSplitThatFailsKeepsNoMemoryOfItsParent() throws Exception {
    SharedSegments before = SharedSegments.now();
    List<Communicator> parents =
        Communicator.initAll(
            List.of(Devices.host(), Devices.host()),
            config("parent", "none", "").with("NCCL_P2P_DISABLE", "1"));
    CommunicatorConfig child = CommunicatorConfig.defaults().withName("null");
    assertFalse(SharedSegments.now().since(before).isEmpty());
    List<CompletableFuture<Void>> splits = new ArrayList<>();
    for (Communicator parent : parents) {
      splits.add(
          CompletableFuture.runAsync(
              () ->
                  assertBlamed(
                      "profiler faulty-profiler", () -> parent.split(0, parent.rank(), child)),
              task -> new Thread(task).start()));
    }
    for (CompletableFuture<Void> split : splits) {
      split.get(300, TimeUnit.SECONDS);
    }
    parents.forEach(Communicator::close);
    SharedSegments more = SharedSegments.now().since(before);
    assertTrue(more.isEmpty(), more.toString());
  }

  @Test
  void aTunerThatThrowsAtAnOperationIsNamed() {
    assertBlamed("tuner faulty-tuner", () -> reduce(config("tunes", "", "none")));
  }

  @Test
  void aProfilerThatThrowsIsToldNoMoreAndOperationsGoOn() {
    for (String when : List.of("launches", "ends")) {
      said.clear();
      reduce(config(when, "none", ""));
      assertEquals(
          List.of("the profiler faulty-profiler fails and receives no more operations"), said);
    }
  }
}
