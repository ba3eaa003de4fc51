package org.nccl4j.it.sample;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
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
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.RedOp;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.testkit.ProfilerContract;
import org.nccl4j.testkit.TunerContract;

/**
 * The sample tuner and profiler: compiled against the API alone, found, kept to their contracts.
 */
@Timeout(600)
class PluginsTest {
  private static final Path SOURCE =
      Path.of("src", "test", "sample-plugins", "org", "example", "plugins", "SmallRing.java");

  @TempDir private Path classes;
  private CompiledPlugins compiled;

  @BeforeEach
  void compile() throws Exception {
    compiled =
        CompiledPlugins.of(
            classes,
            Files.readString(SOURCE),
            Map.of(
                TunerProvider.class,
                "org.example.plugins.SmallRing$Tuning",
                ProfilerProvider.class,
                "org.example.plugins.SmallRing$Profiling"));
  }

  @AfterEach
  void restore() throws Exception {
    compiled.close();
  }

  @TestFactory
  List<DynamicTest> contracts() throws Exception {
    TunerProvider tuner = (TunerProvider) make("Tuning");
    ProfilerProvider profiler = (ProfilerProvider) make("Profiling");
    TunerContract tuners =
        new TunerContract() {
          @Override
          protected TunerProvider provider() {
            return tuner;
          }
        };
    ProfilerContract profilers =
        new ProfilerContract() {
          @Override
          protected ProfilerProvider provider() {
            return profiler;
          }

          @Override
          protected String communicator() {
            return "profiled";
          }
        };
    return Stream.concat(tuners.checks().stream(), profilers.checks().stream())
        .map(check -> dynamicTest(check.name(), check::run))
        .toList();
  }

  private Object make(String provider) throws Exception {
    return compiled
        .load("org.example.plugins.SmallRing$" + provider)
        .getConstructor()
        .newInstance();
  }

  private static List<Communicator> two(CommunicatorConfig config) {
    return Communicator.initAll(Collections.nCopies(2, Devices.host()), config);
  }

  @Test
  void theTunerChangesTheChoice() {
    List<Communicator> tuned = two(CommunicatorConfig.defaults());
    List<Communicator> plain = two(CommunicatorConfig.defaults().with("NCCL_TUNER_PLUGIN", "none"));
    assertEquals(
        Algorithm.RING,
        tuned.get(0).chosenAlgorithm(Operation.ALL_REDUCE, 2, DataType.FLOAT32).algorithm());
    assertNotEquals(
        Algorithm.RING,
        plain.get(0).chosenAlgorithm(Operation.ALL_REDUCE, 2, DataType.FLOAT32).algorithm());
    assertEquals(
        plain.get(0).chosenAlgorithm(Operation.ALL_REDUCE, 1 << 20, DataType.FLOAT32),
        tuned.get(0).chosenAlgorithm(Operation.ALL_REDUCE, 1 << 20, DataType.FLOAT32));
    Stream.of(tuned, plain).forEach(list -> list.forEach(Communicator::close));
    CommunicatorConfig unknown =
        CommunicatorConfig.defaults().with("NCCL_TUNER_PLUGIN", "small-rnig");
    InvalidArgumentException e = assertThrows(InvalidArgumentException.class, () -> two(unknown));
    assertTrue(e.getMessage().contains("small-ring"), e.getMessage());
  }

  @Test
  void theProfilerIsTold() throws Exception {
    assertEquals(
        List.of("launched all_reduce 64", "ended all_reduce 1", "closed"),
        told(CommunicatorConfig.defaults().withName("profiled")));
  }

  @Test
  void theProfilerIsToldOfWhatGoesOverANetwork() throws Exception {
    List<?> told =
        told(
            CommunicatorConfig.defaults()
                .withName("profiled")
                .withTransports(List.of("NET"))
                .with("NCCL_ALGO", "Ring"));
    // Ranks of a ring of two hand over a half to be summed, then a half to be kept.
    for (String line :
        List.of(
            "sent 32, step 0", "received 32, step 0", "sent 32, step 1", "received 32, step 1")) {
      assertEquals(1, Collections.frequency(told, line), told.toString());
    }
    assertEquals("closed", told.get(told.size() - 1));
  }

  /** The calls that rank 0's profiler gets for an operation and at the end. */
  private List<?> told(CommunicatorConfig config) throws Exception {
    List<Communicator> comms = two(config);
    try (DeviceMemory a = Devices.host().allocate(64);
        DeviceMemory b = Devices.host().allocate(64);
        DeviceStream first = Devices.host().createStream();
        DeviceStream second = Devices.host().createStream()) {
      comms.get(0).allReduce(a, a, 16, DataType.FLOAT32, RedOp.SUM, first);
      comms.get(1).allReduce(b, b, 16, DataType.FLOAT32, RedOp.SUM, second);
      second.isIdle();
      first.synchronize();
      second.synchronize();
      comms.forEach(Communicator::close);
    }
    Class<?> keeper = compiled.load("org.example.plugins.SmallRing$Profiling");
    return (List<?>) keeper.getField("TOLD").get(null);
  }
}
