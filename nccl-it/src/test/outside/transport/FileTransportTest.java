package org.example.filetransport;

import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.TransportProvider;
import org.nccl4j.testkit.TransportContract;
import org.nccl4j.testkit.rules.PluginRules;

/** The contract of transports, and the rules of plug-ins, in somebody else's build. */
class FileTransportTest extends TransportContract {
  @TempDir private static Path directory;

  @Override
  protected TransportProvider provider() {
    return new FileProvider();
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
    if (processId != ProcessHandle.current().pid()) {
      return List.of();
    }
    try (Stream<Path> files = Files.list(directory)) {
      return files.sorted().toList();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  @TestFactory
  Stream<DynamicTest> contract() {
    return checks().stream().map(check -> dynamicTest(check.name(), check::run));
  }

  @Test
  void keepsTheRules() {
    PluginRules.check("org.example.filetransport");
  }
}
