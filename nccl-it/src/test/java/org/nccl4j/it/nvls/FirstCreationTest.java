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
import java.util.Objects;
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
    Map<String, String> settings = new HashMap<>(WARMED);
    settings.put("JAVA_TOOL_OPTIONS", "-Xlog:class+load=info");
    Ran ran = program.run(settings, FakeGpuRanks.class);
    List<String> loaded = ran.output().lines().filter(l -> l.contains(" source: ")).toList();
    assertTrue(holds(loaded, SHARED), "classes are listed");
    assertEquals(List.of(), of(loaded, "jdk.jfr.internal.MetadataRepository"));
  }

  /**
   * The list of classes that are loaded ahead has nearly all that a creation uses; {@code
   * -Dnccl4j.classes=write} writes it anew.
   */
  @Test
  void nearlyAllClassesAreLoadedAhead() throws Exception {
    Set<String> used = initialized(run(Map.of()));
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
    Ran without = run(Map.of());
    Map<String, String> warmed = new HashMap<>(WARMED);
    warmed.put("JAVA_OPTIONS", "-Dnccl4j.warmed=true");
    Ran with = run(warmed);
    Set<String> before = initialized(without);
    Set<String> after = initialized(with);
    assertTrue(before.contains(SHARED), "classes are listed");
    assertFalse(after.contains(SHARED), "initialised when Communicator was");
    assertTrue(after.size() < before.size() / 2, () -> before.size() + " to " + after);
    assertFalse(without.output().contains(MEETING), "ranks of one process meet in memory");
    assertTrue(with.output().contains(MEETING), "those of several are warmed up too");
    for (String call : List.of("cuMemCreate", "cuMemMap", "cuStreamCreate")) {
      assertTrue(without.count(call) > 0, call);
      assertEquals(without.count(call), with.count(call), call);
    }
  }

  /** Runs the program, with its classes' initialisation among its output. */
  private static Ran run(Map<String, String> settings) throws Exception {
    Map<String, String> all = new HashMap<>(settings);
    String options = Objects.requireNonNullElse(all.remove("JAVA_OPTIONS"), "");
    all.put("JAVA_TOOL_OPTIONS", "-Xlog:class+init=info " + options);
    all.put("NCCL4J_PRELOAD_KERNELS", "all");
    return program.run(all, FakeGpuRanks.class);
  }

  /** The classes initialised between the first use of Communicator and the end of its creation. */
  private static Set<String> initialized(Ran ran) {
    return ran.output()
        .lines()
        .dropWhile(line -> !line.contains("'org/nccl4j/api/Communicator'"))
        .takeWhile(line -> !line.endsWith(" NVLS"))
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
