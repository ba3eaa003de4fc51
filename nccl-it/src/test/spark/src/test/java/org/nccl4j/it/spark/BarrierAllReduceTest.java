package org.nccl4j.it.spark;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.Serializable;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.spark.BarrierTaskContext;
import org.apache.spark.SparkConf;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import scala.Function1;
import scala.collection.Iterator;
import scala.reflect.ClassTag$;

/** A master, and workers with an executor each: processes of this machine, a core for each rank. */
@Timeout(300)
final class BarrierAllReduceTest {
  private static final Path SOURCE =
      Path.of("src/main/java/org/nccl4j/it/spark/BarrierAllReduce.java");
  private static final Path PAGE = Path.of("../../../../docs/guides/spark.md");
  private static final int RANKS = 3;
  private static final int LENGTH = 100_003;

  private static JavaSparkContext spark;

  @BeforeAll
  static void start() throws IOException {
    SparkConf settings =
        new SparkConf()
            .setAppName("nccl4j")
            .setMaster("local-cluster[" + RANKS + ",1,512]")
            .set("spark.executor.memory", "512m")
            .set("spark.ui.enabled", "false")
            .set("spark.driver.host", "127.0.0.1")
            .set("spark.jars", jars())
            .set("spark.executor.extraJavaOptions", nativeAccess())
            .set("spark.executorEnv.NCCL_SOCKET_IFNAME", "lo");
    spark = new JavaSparkContext(settings);
  }

  /**
   * As --jars of spark-submit: the class loader of executors has them, their class path has not.
   */
  private static String jars() throws IOException {
    try (Stream<Path> files = Files.list(Path.of(System.getProperty("nccl4j.spark.application")))) {
      return Stream.concat(
              Stream.of(System.getProperty("nccl4j.spark.jars")), files.map(Path::toString))
          .collect(Collectors.joining(","));
    }
  }

  private static String nativeAccess() {
    return Runtime.version().feature() < 24 ? "" : "--enable-native-access=ALL-UNNAMED";
  }

  @AfterAll
  static void stop() {
    if (spark != null) {
      spark.stop();
    }
  }

  /** Small whole numbers: sums are exact, in any order. */
  private static JavaRDD<float[]> vectors(int number) {
    List<Integer> seeds = IntStream.range(0, number).boxed().toList();
    return spark
        .parallelize(seeds, RANKS)
        .map(
            seed -> {
              Random random = new Random(seed);
              float[] vector = new float[LENGTH];
              for (int i = 0; i < LENGTH; i++) {
                vector[i] = random.nextInt(1000);
              }
              return vector;
            });
  }

  private static float[] plus(float[] a, float[] b) {
    float[] sum = new float[LENGTH];
    for (int i = 0; i < LENGTH; i++) {
      sum[i] = a[i] + b[i];
    }
    return sum;
  }

  @Test
  void everyPartitionHasWhatReduceGives() {
    JavaRDD<float[]> vectors = vectors(10);
    float[] expected = vectors.reduce(BarrierAllReduceTest::plus);
    List<float[]> sums = BarrierAllReduce.sums(vectors, LENGTH).collect();
    assertEquals(RANKS, sums.size());
    sums.forEach(sum -> assertArrayEquals(expected, sum));
  }

  /** The second and third partitions have nothing to add. */
  @Test
  void emptyPartitionsCountAsZero() {
    JavaRDD<float[]> vectors = vectors(1);
    float[] expected = vectors.first();
    BarrierAllReduce.sums(vectors, LENGTH)
        .collect()
        .forEach(sum -> assertArrayEquals(expected, sum));
  }

  @Test
  void everyRankIsAnExecutorOfItsOwn() {
    List<float[]> answers = perTask(own -> new float[] {ProcessHandle.current().pid()}).collect();
    HashSet<Float> processes = new HashSet<>();
    answers.forEach(answer -> processes.add(answer[0]));
    assertEquals(RANKS, processes.size());
    assertTrue(!processes.contains((float) ProcessHandle.current().pid()));
  }

  /**
   * Spark runs all tasks of the stage again, in the same processes, with a new id, if a shuffle
   * follows it.
   */
  @Test
  void aTaskThatFailsIsRunAgainWithAllOthers() {
    List<float[]> sums =
        perTask(
                own -> {
                  BarrierTaskContext task = BarrierTaskContext.get();
                  float[] sum = BarrierAllReduce.allReduce(new float[] {1 << task.partitionId()});
                  if (task.stageAttemptNumber() == 0 && task.partitionId() == 1) {
                    throw new IllegalStateException("the first attempt fails");
                  }
                  return new float[] {sum[0], task.stageAttemptNumber()};
                })
            .repartition(RANKS)
            .collect();
    assertEquals(RANKS, sums.size());
    sums.forEach(sum -> assertArrayEquals(new float[] {(1 << RANKS) - 1, 1}, sum));
  }

  @Test
  void thePageShowsThisCode() throws IOException {
    String source = blanksAsOne(Files.readString(SOURCE));
    String page = Files.readString(PAGE);
    List<String> shown =
        Pattern.compile("```java\n(.*?)```", Pattern.DOTALL)
            .matcher(page)
            .results()
            .map(code -> blanksAsOne(code.group(1)))
            .toList();
    assertEquals(2, shown.size());
    shown.forEach(code -> assertTrue(source.contains(code), code));
  }

  private static String blanksAsOne(String code) {
    return code.strip().replaceAll("\\s+", " ");
  }

  private interface Work extends Serializable {
    float[] of(Iterator<Integer> own);
  }

  private static JavaRDD<float[]> perTask(Work work) {
    return spark
        .parallelize(IntStream.range(0, RANKS).boxed().toList(), RANKS)
        .rdd()
        .barrier()
        .mapPartitions(
            (Function1<Iterator<Integer>, Iterator<float[]>> & Serializable)
                own -> scala.collection.Iterator$.MODULE$.single(work.of(own)),
            false,
            ClassTag$.MODULE$.<float[]>apply(float[].class))
        .toJavaRDD();
  }
}
