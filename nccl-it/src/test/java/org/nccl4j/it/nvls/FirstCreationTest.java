package org.nccl4j.it.nvls;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.it.nvls.FakeGpuProcess.Ran;

/**
 * What a process does not do for its first communicator, since it takes longer than all the rest:
 * see docs/benchmarks/communicators.md.
 */
@Timeout(180)
class FirstCreationTest {
  private static final Path LIST =
      Path.of("..", "nccl-api", "src", "main", "resources", "META-INF/nccl4j/creation.classes");
  private static final Pattern INITIALIZING = Pattern.compile("Initializing '([^']+)'");

  /**
   * Ours and our libraries', without those that have numbers: they are the compiler's, or made at
   * run time.
   */
  private static final Pattern LISTED =
      Pattern.compile(
          "(org\\.nccl4j|jnr|com\\.kenai|jcuda|org\\.objectweb)\\.[\\w.$]*(?<!\\$\\d{1,3})");

  @TempDir static Path folder;
  private static FakeGpuProcess program;

  @BeforeAll
  static void buildTheFake() throws Exception {
    program = FakeGpuProcess.in(folder);
  }

  @Test
  void noEventIsDescribedWhereNobodyRecords() throws Exception {
    Ran ran = program.run(Map.of("JAVA_TOOL_OPTIONS", "-Xlog:class+load=info"), FakeGpuRanks.class);
    List<String> loaded = ran.output().lines().filter(l -> l.contains(" source: ")).toList();
    assertTrue(holds(loaded, "org.nccl4j.api.launch.Launcher"), "classes are listed");
    assertEquals(List.of(), of(loaded, "jdk.jfr.internal.MetadataRepository"));
  }

  /**
   * The list of classes that are loaded ahead has nearly all that a creation uses; {@code
   * -Dnccl4j.classes=write} writes it anew.
   */
  @Test
  void nearlyAllClassesAreLoadedAhead() throws Exception {
    Ran ran = program.run(Map.of("JAVA_TOOL_OPTIONS", "-Xlog:class+init=info"), FakeGpuRanks.class);
    Set<String> used =
        ran.output()
            .lines()
            .dropWhile(line -> !line.contains("'org/nccl4j/api/Communicator'"))
            .takeWhile(line -> !line.endsWith(" NVLS"))
            .map(INITIALIZING::matcher)
            .filter(Matcher::find)
            .map(found -> found.group(1).replace('/', '.'))
            .filter(name -> LISTED.matcher(name).matches())
            .collect(Collectors.toCollection(TreeSet::new));
    assertTrue(used.contains("org.nccl4j.api.launch.Launcher"), "classes are listed");
    if ("write".equals(System.getProperty("nccl4j.classes"))) {
      Files.createDirectories(LIST.getParent());
      Files.write(LIST, used);
    }
    Set<String> listed = new TreeSet<>(Files.readAllLines(LIST));
    for (String name : listed) {
      assertDoesNotThrow(() -> Class.forName(name, false, getClass().getClassLoader()), name);
    }
    used.removeAll(listed);
    assertTrue(
        used.size() < listed.size() / 10,
        () -> used + " are not in " + LIST + ": write it anew by -Dnccl4j.classes=write");
  }

  private static boolean holds(List<String> loaded, String name) {
    return !of(loaded, name).isEmpty();
  }

  private static List<String> of(List<String> loaded, String name) {
    return loaded.stream().filter(line -> line.contains(name + " source: ")).toList();
  }
}
