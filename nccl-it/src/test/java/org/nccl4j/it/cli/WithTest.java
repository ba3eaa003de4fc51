package org.nccl4j.it.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** {@code nccl with} in an unpacked archive. */
class WithTest {
  @TempDir private Path root;

  private record Ran(int status, String output) {}

  private Ran with(Map<String, String> variables, String... arguments) throws Exception {
    List<String> command = new ArrayList<>(List.of(root.resolve("nccl").toString(), "with"));
    command.addAll(List.of(arguments));
    ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true);
    builder.environment().keySet().removeIf(name -> name.startsWith("LD_"));
    builder.environment().putAll(variables);
    Process process = builder.start();
    String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    return new Ran(process.waitFor(), output);
  }

  /** A folder that the script takes for an archive: it has a Java runtime. */
  private void unpack(boolean library) throws IOException {
    Files.copy(Path.of("..", "nccl"), root.resolve("nccl"));
    root.resolve("nccl").toFile().setExecutable(true);
    Files.createDirectories(root.resolve("jre"));
    Files.writeString(root.resolve("jre/release"), "JAVA_VERSION=\"17.0.15\"\n");
    Path java = Files.createDirectories(root.resolve("jre/bin")).resolve("java");
    Files.writeString(java, "#!/bin/sh\n");
    java.toFile().setExecutable(true);
    if (library) {
      Files.createFile(Files.createDirectories(root.resolve("lib")).resolve("libnccl.so.2"));
    }
  }

  @Test
  void aProgramSeesTheLibraryFirst() throws Exception {
    unpack(true);
    String folder = root.toRealPath().resolve("lib").toString();
    Ran ran =
        with(
            Map.of("LD_LIBRARY_PATH", "/mine"),
            "--",
            "sh",
            "-c",
            "LD_PRELOAD= printf '%s %s %s' \"$0\" \"$LD_LIBRARY_PATH\" \"$1\"",
            "a b",
            "c");
    assertEquals("a b %s:/mine c".formatted(folder), lastLine(ran));
    assertEquals(0, ran.status);
    assertEquals(3, with(Map.of(), "sh", "-c", "exit 3").status);
  }

  /** The JVM's library that keeps the program's later handlers of signals and its own apart. */
  @Test
  void theJvmsLibraryOfSignalsIsPreloadedWhereItIs() throws Exception {
    unpack(true);
    Path real = root.toRealPath();
    String library = real.resolve("lib/libnccl.so.2").toString();
    String[] print = {"sh", "-c", "p=$LD_PRELOAD; LD_PRELOAD= printf '%s\\n' \"$p\""};
    assertEquals(library, lastLine(with(Map.of(), print)));
    Files.createFile(Files.createDirectories(root.resolve("jre/lib")).resolve("libjsig.so"));
    assertEquals(
        real.resolve("jre/lib/libjsig.so") + ":" + library, lastLine(with(Map.of(), print)));
    assertEquals(
        library, lastLine(with(Map.of("NCCL4J_JAVA_HOME", root.resolve("none") + ""), print)));
  }

  /** The dynamic loader complains first that the empty file is no library. */
  private static String lastLine(Ran ran) {
    return ran.output.lines().reduce((a, b) -> b).orElse("");
  }

  @Test
  void withoutTheLibraryOrACommandItSaysSo() throws Exception {
    unpack(false);
    Ran ran = with(Map.of(), "true");
    assertEquals(1, ran.status);
    assertTrue(ran.output.contains("no gcc") && ran.output.contains("remedy"), ran.output);
    assertEquals(2, with(Map.of()).status);
    assertEquals(0, with(Map.of(), "--help").status);
  }
}
