package org.nccl4j.it.sample;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.module.ModuleDescriptor;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.ServiceLoader;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.TransportProvider;
import org.nccl4j.testkit.TransportContract;

/** A transport can be written with the exported packages alone, and is used as our own are. */
@Timeout(600)
final class SampleTransportTest extends TransportContract {
  static {
    SampleTransportTest.class.getModule().addUses(TransportProvider.class);
  }

  private static final ModuleLayer LAYER = SampleModule.layer();

  @TempDir private static Path directory;

  @Override
  protected TransportProvider provider() {
    return ServiceLoader.load(LAYER, TransportProvider.class).stream()
        .map(ServiceLoader.Provider::get)
        .filter(provider -> provider.name().equals("file"))
        .findFirst()
        .orElseThrow();
  }

  @Override
  protected Map<String, String> settings() {
    return Map.of("NCCL4J_FILE_TRANSPORT_DIR", directory.toString());
  }

  @Override
  protected List<PeerInfo> unreachable() {
    PeerInfo near = peer(1);
    return List.of(
        new PeerInfo(
            1,
            "another host",
            near.ipcNamespace(),
            near.processId(),
            near.userId(),
            near.deviceKind(),
            near.deviceId()));
  }

  @Override
  protected List<Path> filesOf(long processId) {
    // Files have no process in their name; those of a killed one stay until somebody tidies up.
    return processId == ProcessHandle.current().pid() ? files() : List.of();
  }

  private static List<Path> files() {
    try (Stream<Path> files = Files.list(directory)) {
      return files.sorted().toList();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  @Override
  protected String childClassPath() {
    return SampleModule.classes() + File.pathSeparator + super.childClassPath();
  }

  @TestFactory
  Stream<DynamicTest> contract() {
    return checks().stream().map(check -> dynamicTest(check.name(), check::run));
  }

  @Test
  void seesOnlyWhatIsExported() {
    Module sample = provider().getClass().getModule();
    assertTrue(sample.isNamed());
    Set<String> required =
        sample.getDescriptor().requires().stream()
            .map(ModuleDescriptor.Requires::name)
            .collect(Collectors.toSet());
    assertEquals(Set.of("java.base", "org.nccl4j.api"), required);
  }

  @Test
  void aCheckedAllReduceRunsThroughIt() throws Exception {
    String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
    String modules =
        System.getProperty("jdk.module.path") + File.pathSeparator + SampleModule.classes();
    ProcessBuilder builder =
        new ProcessBuilder(
            java,
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            "-cp",
            System.getProperty("java.class.path"),
            "-p",
            modules,
            "-m",
            "org.nccl4j.it/org.nccl4j.it.cli.Main",
            "perf",
            "all_reduce",
            "-t",
            "3",
            "-b",
            "8",
            "-e",
            "64K",
            "-f",
            "8",
            "-n",
            "5",
            "--jit-warmup",
            "0",
            "-w",
            "1");
    builder.environment().put("NCCL4J_TRANSPORTS", "file");
    builder.environment().put("NCCL4J_FILE_TRANSPORT_DIR", directory.toString());
    Process process = builder.redirectErrorStream(true).start();
    String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertEquals(0, process.waitFor(), output);
    assertTrue(output.contains("Out of bounds values : 0 OK"), output);
    assertEquals(List.of(), files());
  }
}
