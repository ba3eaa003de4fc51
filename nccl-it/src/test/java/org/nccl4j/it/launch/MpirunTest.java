package org.nccl4j.it.launch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.it.api.RankJvm;

/** Needs Open MPI's mpirun; is skipped where there is none. */
@Timeout(600)
final class MpirunTest {
  private static final int RANKS = 4;

  @TempDir private Path folder;

  private static boolean installed(String tool) {
    String path = new ProcessBuilder().environment().getOrDefault("PATH", "");
    return Stream.of(path.split(File.pathSeparator))
        .anyMatch(each -> Files.isExecutable(Path.of(each, tool)));
  }

  @Test
  void fourRanksOfMpirunCallEveryCollective() throws Exception {
    assumeTrue(installed("mpirun"), "there is no mpirun: apt-get install openmpi-bin");
    List<String> command =
        new ArrayList<>(List.of("mpirun", "-n", Integer.toString(RANKS), "--oversubscribe"));
    if ("root".equals(System.getProperty("user.name"))) {
      command.add("--allow-run-as-root");
    }
    command.addAll(RankJvm.command());
    command.add(LaunchedRank.class.getName());
    command.add(folder.resolve("id").toString());
    Path output = folder.resolve("output");
    Process process =
        new ProcessBuilder(command)
            .redirectErrorStream(true)
            .redirectOutput(output.toFile())
            .start();
    try {
      assertTrue(process.waitFor(300, TimeUnit.SECONDS), () -> text(output));
      assertEquals(0, process.exitValue(), () -> text(output));
      assertEquals(
          IntStream.range(0, RANKS)
              .mapToObj(r -> "Open MPI: rank %d of %d, local %d: all right".formatted(r, RANKS, r))
              .toList(),
          text(output).lines().filter(line -> line.startsWith("Open MPI: ")).sorted().toList(),
          () -> text(output));
    } finally {
      process.destroy();
    }
  }

  private static String text(Path file) {
    try {
      return Files.readString(file, StandardCharsets.UTF_8);
    } catch (IOException e) {
      return e.toString();
    }
  }
}
