package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.lang.reflect.Method;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import java.util.spi.ToolProvider;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * Compiles the task of docs/guides/spark.md, and runs it with a stand-in for the barrier of Spark,
 * which the build does not download: each task gets the sum. nccl-it/src/test/spark runs it with
 * Spark.
 */
@Timeout(120)
class SparkTaskTest {
  private static final int TASKS = 3;
  private static final Path PAGE = Path.of("../docs/guides/spark.md");
  private static final Path SOURCE =
      Path.of("src/test/spark/src/main/java/org/nccl4j/it/spark/BarrierAllReduce.java");
  private static final Pattern CODE = Pattern.compile("```java\n(.*?)```", Pattern.DOTALL);

  private static final String BARRIER =
      """
      package org.apache.spark;

      import java.util.concurrent.CyclicBarrier;
      import java.util.concurrent.TimeUnit;

      public final class BarrierTaskContext {
        private static final ThreadLocal<BarrierTaskContext> OWN = new ThreadLocal<>();
        private static final String[] SAID = new String[3];
        private static final CyclicBarrier ALL = new CyclicBarrier(SAID.length);
        private final int partition;

        private BarrierTaskContext(int partition) {
          this.partition = partition;
        }

        public static void begin(int partition) {
          OWN.set(new BarrierTaskContext(partition));
        }

        public static BarrierTaskContext get() {
          return OWN.get();
        }

        public int partitionId() {
          return partition;
        }

        public Object[] getTaskInfos() {
          return SAID.clone();
        }

        public String[] allGather(String said) {
          SAID[partition] = said;
          try {
            ALL.await(60, TimeUnit.SECONDS);
          } catch (Exception e) {
            throw new IllegalStateException(e);
          }
          return SAID.clone();
        }
      }
      """;

  private static final String STEP =
      """
      import java.nio.*;
      import org.apache.spark.BarrierTaskContext;
      import org.nccl4j.api.*;
      import org.nccl4j.device.*;

      public final class Step12 {
        %s

        public static float[] task(int partition, float[] values) {
          BarrierTaskContext.begin(partition);
          return allReduce(values);
        }
      }
      """;

  @TempDir private Path folder;

  private static List<String> shown() throws IOException {
    return CODE.matcher(Files.readString(PAGE)).results().map(code -> code.group(1)).toList();
  }

  private static String blanksAsOne(String code) {
    return code.strip().replaceAll("\\s+", " ");
  }

  @Test
  void thePageShowsTheProgram() throws IOException {
    String source = blanksAsOne(Files.readString(SOURCE));
    assertEquals(2, shown().size());
    shown().forEach(code -> assertTrue(source.contains(blanksAsOne(code)), code));
  }

  @Test
  void eachTaskGetsTheSum() throws Exception {
    Path barrier = Files.writeString(folder.resolve("BarrierTaskContext.java"), BARRIER);
    Path step = Files.writeString(folder.resolve("Step12.java"), STEP.formatted(shown().get(1)));
    StringWriter said = new StringWriter();
    PrintWriter out = new PrintWriter(said);
    String[] command = {
      "-d", folder.toString(), "-cp", ChaosRank.classPath(), barrier.toString(), step.toString()
    };
    int status = ToolProvider.findFirst("javac").orElseThrow().run(out, out, command);
    assertEquals(0, status, said.toString());
    try (URLClassLoader loader = new URLClassLoader(new URL[] {folder.toUri().toURL()})) {
      Method task = loader.loadClass("Step12").getMethod("task", int.class, float[].class);
      List<FutureTask<Object>> tasks = new ArrayList<>();
      for (int partition = 0; partition < TASKS; partition++) {
        int own = partition;
        tasks.add(new FutureTask<>(() -> task.invoke(null, own, new float[] {1 << own, own})));
        new Thread(tasks.get(own), "task " + own).start();
      }
      for (FutureTask<Object> each : tasks) {
        assertArrayEquals(new float[] {7, 3}, (float[]) each.get(100, TimeUnit.SECONDS));
      }
    }
  }
}
