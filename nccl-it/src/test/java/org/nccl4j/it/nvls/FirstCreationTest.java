package org.nccl4j.it.nvls;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
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
 * Work that a process must not do for its first communicator, since it takes longer than all the
 * rest: see docs/benchmarks/communicators.md.
 */
@Timeout(600)
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
          "(org\\.nccl4j(?!\\.testkit)|jnr|com\\.kenai|jcuda|org\\.objectweb)\\.[\\w.$]*(?<!\\$\\d{1,3})");

  /** A class that every creation loads, on any device. */
  private static final String SHARED = "org.nccl4j.api.launch.Launcher";

  private static final String CREATED = "FakeGpuRanks$Created'";

  private static final String MEETING = "'org/nccl4j/api/bootstrap/TcpBootstrap'";

  /** As programs are by default; a {@link FakeGpuProcess} is not. */
  private static final Map<String, String> WARMED = Map.of("NCCL4J_WARMUP", "1");

  @TempDir static Path folder;
  private static FakeGpuProcess program;

  @BeforeAll
  static void buildTheFake() throws Exception {
    program = FakeGpuProcess.in(folder);
  }

  @Test
  void noEventIsDescribedWhereNobodyRecords() throws Exception {
    List<String> loaded = logged("class+load", "", WARMED).log;
    assertTrue(holds(loaded, SHARED), "classes are listed");
    assertEquals(List.of(), of(loaded, "jdk.jfr.internal.MetadataRepository"));
  }

  /**
   * The list of classes that are loaded ahead has nearly all that a creation uses; {@code
   * -Dnccl4j.classes=write} writes it anew.
   */
  @Test
  void nearlyAllClassesAreLoadedAhead() throws Exception {
    Set<String> used = initialized(run("", Map.of()));
    assertTrue(used.contains(SHARED), "classes are listed");
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

  /**
   * Once a creation has been warmed up, one on GPUs initialises few classes more, and the driver
   * has been asked for nothing that the program does not ask for itself.
   */
  @Test
  void aRehearsalIsAllButTheGpus() throws Exception {
    Logged without = run("", Map.of());
    Logged with = run("-Dnccl4j.warmed=true", WARMED);
    Set<String> before = initialized(without);
    Set<String> after = initialized(with);
    assertTrue(before.contains(SHARED), "classes are listed");
    assertFalse(after.contains(SHARED), "initialised when Communicator was");
    assertTrue(after.size() < before.size() / 2, () -> before.size() + " to " + after);
    assertFalse(without.names(MEETING), "ranks of one process meet in memory");
    assertTrue(with.names(MEETING), "those of several are warmed up too");
    for (String call : List.of("cuMemCreate", "cuMemMap", "cuStreamCreate")) {
      assertTrue(without.ran.count(call) > 0, call);
      assertEquals(without.ran.count(call), with.ran.count(call), call);
    }
  }

  /** A process and the lines of its log, which are not among its output: that would cut them. */
  private record Logged(Ran ran, List<String> log) {
    boolean names(String text) {
      return log.stream().anyMatch(line -> line.contains(text));
    }
  }

  /** Runs the program with all kernels, and logs its classes' initialisation. */
  private static Logged run(String options, Map<String, String> settings) throws Exception {
    Map<String, String> all = new HashMap<>(settings);
    all.put("NCCL4J_PRELOAD_KERNELS", "all");
    return logged("class+init", options, all);
  }

  private static Logged logged(String tags, String options, Map<String, String> settings)
      throws Exception {
    Path log = Files.createTempFile(folder, "log", ".txt");
    Map<String, String> all = new HashMap<>(settings);
    all.put("JAVA_TOOL_OPTIONS", "-Xlog:%s=info:file=%s %s".formatted(tags, log, options));
    return new Logged(program.run(all, FakeGpuRanks.class), Files.readAllLines(log));
  }

  /** The classes initialised between the first use of Communicator and the end of its creation. */
  private static Set<String> initialized(Logged logged) {
    return logged.log.stream()
        .dropWhile(line -> !line.contains("'org/nccl4j/api/Communicator'"))
        .takeWhile(line -> !line.contains(CREATED))
        .map(INITIALIZING::matcher)
        .filter(Matcher::find)
        .map(found -> found.group(1).replace('/', '.'))
        .filter(name -> LISTED.matcher(name).matches())
        .collect(Collectors.toCollection(TreeSet::new));
  }

  private static boolean holds(List<String> loaded, String name) {
    return !of(loaded, name).isEmpty();
  }

  private static List<String> of(List<String> loaded, String name) {
    return loaded.stream().filter(line -> line.contains(name + " source: ")).toList();
  }
}
