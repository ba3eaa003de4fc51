package org.nccl4j.it.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The script {@code nccl} in a clone that is not built, with a JDK and a Maven that do nothing. */
class NcclScriptTest {
  @TempDir private Path root;

  private Path built;

  @BeforeEach
  void copy() throws IOException {
    built = root.resolve("built");
    Files.copy(Path.of("..", "nccl"), root.resolve("nccl"));
    assertTrue(root.resolve("nccl").toFile().setExecutable(true));
    Path programs = Files.createDirectories(root.resolve("jdk/bin"));
    Files.writeString(root.resolve("jdk/release"), "JAVA_VERSION=\"17.0.15\"\n");
    for (String program : List.of("java", "javac", "mvn")) {
      Path file =
          Files.writeString(programs.resolve(program), "#!/bin/sh\ntouch '" + built + "'\n");
      assertTrue(file.toFile().setExecutable(true));
    }
  }

  private String run(int status, String... arguments) throws Exception {
    List<String> command = new ArrayList<>(List.of(root.resolve("nccl").toString()));
    command.addAll(List.of(arguments));
    ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true);
    builder.environment().put("JAVA_HOME", root.resolve("jdk").toString());
    builder.environment().merge("PATH", root.resolve("jdk/bin") + ":", (old, own) -> own + old);
    Process process = builder.start();
    String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertEquals(status, process.waitFor(), output);
    return output;
  }

  /** A build takes minutes, and would be for nothing. */
  @ParameterizedTest
  @ValueSource(strings = {"--output x.tgz", "-o", "x.tgz extra", "-- -x.tgz extra"})
  void wrongWordsOfDistAreRefusedBeforeABuild(String words) throws Exception {
    String output = run(2, ("dist " + words).split(" "));
    assertTrue(output.startsWith("nccl dist: "), output);
    assertTrue(output.contains("\n  remedy: "), output);
    assertFalse(Files.exists(built), output);
  }

  /** A folder in the place of the file that builds lock: root may write to all others. */
  @Test
  void aFolderThatCannotBeWrittenToIsNamed() throws Exception {
    Path target = root.toRealPath().resolve("nccl-it/target");
    Files.createDirectories(target.resolve("nccl.lock"));
    String output = run(1, "doctor");
    assertTrue(output.startsWith("nccl: nccl4j is not built, "), output);
    assertTrue(output.contains(target + " cannot be written to\n  remedy: make it "), output);
    assertFalse(Files.exists(built), output);
  }
}
