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

  /** The dynamic loader would split the path, and the program go on with another NCCL. */
  @Test
  void aFolderThatCannotBePreloadedIsRefused() throws Exception {
    root = Files.createDirectory(root.resolve("a folder"));
    unpack(true);
    Ran ran = with(Map.of(), "sh", "-c", "echo ran");
    assertTrue(ran.output.startsWith("nccl: LD_PRELOAD takes no path with a space"), ran.output);
    assertTrue(ran.output.contains("  remedy: "), ran.output);
    assertEquals(1, ran.status);
  }

  /** The dynamic loader complains first that the empty file is no library. */
  private static String lastLine(Ran ran) {
    return ran.output.lines().reduce((a, b) -> b).orElse("");
  }

  /** Once in a place, if the archive lists them. */
  @Test
  void theListedClassesAreArchived() throws Exception {
    unpack(true);
    Path log = root.resolve("calls");
    Path library = root.toRealPath().resolve("lib");
    Files.writeString(
        root.resolve("jre/bin/java"),
        """
        #!/bin/sh
        echo "$@" >> %s
        for option; do
          case $option in -XX:SharedArchiveFile=*) echo > "${option#*=}" ;; esac
        done
        """
            .formatted(log));
    assertEquals(0, with(Map.of(), "true").status);
    assertFalse(Files.exists(log), "nothing is listed");
    Path list = Files.createFile(library.resolve("nccl4j.classes"));
    for (int time = 0; time < 2; time++) {
      assertEquals(0, with(Map.of(), "true").status);
      List<String> calls = Files.readAllLines(log);
      assertEquals(1, calls.size(), calls.toString());
      assertTrue(
          calls.get(0).startsWith("-Xshare:dump -XX:SharedClassListFile=" + list), calls.get(0));
      assertTrue(Files.exists(library.resolve("nccl4j.jsa")));
    }
  }

  @Test
  void withoutTheLibraryOrACommandItSaysSo() throws Exception {
    unpack(false);
    Ran ran = with(Map.of(), "true");
    assertEquals(1, ran.status);
    assertTrue(ran.output.contains("no gcc") && ran.output.contains("remedy"), ran.output);
    for (String[] nothing : new String[][] {{}, {"--"}, {""}}) {
      Ran none = with(Map.of(), nothing);
      assertEquals(2, none.status);
      assertTrue(none.output.startsWith("nccl with: no command is given\n  remedy: "), none.output);
    }
    assertEquals(0, with(Map.of(), "--help").status);
  }
}
