package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.device.DebugLog;
import org.nccl4j.it.cli.Main;

/** The effect of NCCL_DEBUG, NCCL_DEBUG_SUBSYS and NCCL_DEBUG_FILE on a program's log. */
@Timeout(600)
class DebugFileTest {
  @TempDir private Path directory;

  /** A program with two ranks; what it says goes to a file beside the log. */
  private Process start(String name, Map<String, String> settings) throws Exception {
    List<String> command = RankJvm.command();
    command.addAll(List.of(Main.class.getName(), "perf", "all_reduce", "-t", "2"));
    command.addAll(List.of("-b", "8", "-e", "8", "-n", "1", "-w", "0", "--jit-warmup", "0"));
    File output = directory.resolve(name + ".output").toFile();
    ProcessBuilder builder =
        new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(output);
    builder.environment().keySet().removeIf(key -> key.startsWith("NCCL"));
    builder.environment().put("NCCL4J_NET_SILENCE_TIMEOUT", "0"); // a stall would be a warning
    builder.environment().putAll(settings);
    return builder.start();
  }

  private String output(String name, Process process) throws Exception {
    assertTrue(process.waitFor(300, TimeUnit.SECONDS), name);
    return Files.readString(directory.resolve(name + ".output"));
  }

  private Map<String, String> debug(String level, String subsystems, String file) {
    return Map.of(
        "NCCL_DEBUG",
        level,
        "NCCL_DEBUG_SUBSYS",
        subsystems,
        "NCCL_DEBUG_FILE",
        directory.resolve(file).toString());
  }

  @Test
  void theFileHasWhatTheSubsystemsLog() throws Exception {
    Process coll = start("coll", debug("INFO", "COLL", "%h.%p.coll"));
    Process most = start("most", debug("INFO", "^COLL,GRAPH", "%p.most"));
    Process warn = start("warn", debug("WARN", "ALL", "%p.warn"));
    Process none = start("none", debug("INFO", "ALL", "missing/%p"));
    Process version = start("version", debug("VERSION", "ALL", "%p.version"));
    String said = output("coll", coll);
    assertEquals(0, coll.exitValue(), said);
    assertFalse(said.contains("of communicator"), said);
    String lines = Files.readString(log(DebugLog.hostName() + "." + coll.pid() + ".coll"));
    assertTrue(lines.contains("COLL INFO all_reduce: operation 1 of rank 0"), lines);
    assertTrue(lines.contains("of rank 1 of communicator"), lines);
    assertTrue(lines.lines().allMatch(line -> line.contains(":" + coll.pid() + " COLL ")), lines);
    assertEquals(0, most.waitFor(), output("most", most));
    String other = Files.readString(log(most.pid() + ".most"));
    assertTrue(other.contains(" INIT INFO rank 0 of communicator"), other);
    assertFalse(other.contains(" COLL ") || other.contains(" GRAPH "), other);
    assertEquals(0, warn.waitFor(), output("warn", warn));
    assertEquals("", Files.readString(log(warn.pid() + ".warn")));
    String refused = output("none", none);
    assertTrue(none.exitValue() != 0, refused);
    assertTrue(refused.contains("which NCCL_DEBUG_FILE names, cannot be written"), refused);
    String told = output("version", version);
    assertTrue(
        told.lines().anyMatch(line -> line.matches("INFO: nccl4j [0-9.]+(-SNAPSHOT)?")), told);
    assertFalse(told.contains("of communicator"), told);
    assertTrue(
        other.lines().anyMatch(line -> line.matches(".* INIT INFO nccl4j [0-9.]+(-SNAPSHOT)?")),
        other);
    try (Stream<Path> files = Files.list(directory)) {
      assertEquals(8, files.count());
    }
  }

  private Path log(String name) {
    return directory.resolve(name);
  }
}
