package org.nccl4j.it.spark;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.stream.IntStream;
import org.apache.spark.SparkException;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.JavaFutureAction;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.spark.BarrierRank;
import org.nccl4j.spark.BarrierStage;
import org.nccl4j.spark.RankFunction;
import org.nccl4j.spark.RankOptions;

/** Ranks on the host device: three workers with an executor each, and a core for each rank. */
@Timeout(600)
final class HostRanksTest {
  private static final int RANKS = 3;
  private static final int LENGTH = 100_003;
  private static final long QUICK_NANOS = 60_000_000_000L;

  private static JavaSparkContext spark;

  @BeforeAll
  static void start() throws IOException {
    spark = new JavaSparkContext(Cluster.settings("local-cluster[" + RANKS + ",1,512]", RANKS));
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
    float[] expected = vectors.reduce(HostRanksTest::plus);
    List<float[]> sums = BarrierAllReduce.sums(vectors, LENGTH, RankOptions.host()).collect();
    assertEquals(RANKS, sums.size());
    sums.forEach(sum -> assertArrayEquals(expected, sum));
  }

  /** The second and third partitions have nothing to add. */
  @Test
  void emptyPartitionsCountAsZero() {
    JavaRDD<float[]> vectors = vectors(1);
    float[] expected = vectors.first();
    BarrierAllReduce.sums(vectors, LENGTH, RankOptions.host())
        .collect()
        .forEach(sum -> assertArrayEquals(expected, sum));
  }

  @Test
  void theMeanOfADataFrameIsThatOfItsVectors() {
    int length = 17;
    Random random = new Random(5);
    List<Row> rows = new ArrayList<>();
    double[] mean = new double[length];
    for (int row = 0; row < 100; row++) {
      Double[] vector = new Double[length];
      for (int i = 0; i < length; i++) {
        vector[i] = (double) random.nextInt(1000);
        mean[i] += vector[i] / 100;
      }
      rows.add(RowFactory.create("row " + row, vector));
    }
    SparkSession session = SparkSession.builder().sparkContext(spark.sc()).getOrCreate();
    Dataset<Row> frame =
        session.createDataFrame(
            rows,
            DataTypes.createStructType(
                new StructField[] {
                  DataTypes.createStructField("name", DataTypes.StringType, false),
                  DataTypes.createStructField(
                      "features", DataTypes.createArrayType(DataTypes.DoubleType), false)
                }));
    double[] found =
        VectorMean.of(frame.repartition(RANKS), "features", length, RankOptions.host());
    assertArrayEquals(mean, found, 1e-9);
  }

  @Test
  void everyRankIsAnExecutorOfItsOwn() {
    HashSet<Long> processes =
        new HashSet<>(
            perTask((rank, own) -> List.of(ProcessHandle.current().pid()).iterator()).collect());
    assertEquals(RANKS, processes.size());
    assertTrue(!processes.contains(ProcessHandle.current().pid()));
  }

  /**
   * Spark runs all tasks of the stage again, in the same processes, with a new id, if a shuffle
   * follows it.
   */
  @Test
  void aTaskThatFailsIsRunAgainWithAllOthers() {
    List<List<Float>> sums =
        perTask(
                (rank, own) -> {
                  float sum = BarrierAllReduce.allReduce(rank, new float[] {1 << rank.rank()})[0];
                  int attempt = TaskContext.get().stageAttemptNumber();
                  if (attempt == 0 && rank.rank() == 1) {
                    throw new IllegalStateException("the first attempt fails");
                  }
                  return List.of(List.of(sum, (float) attempt)).iterator();
                })
            .repartition(RANKS)
            .collect();
    assertEquals(RANKS, sums.size());
    sums.forEach(sum -> assertEquals(List.of((float) ((1 << RANKS) - 1), 1f), sum));
  }

  /** The others wait for it in an operation. */
  @Test
  void aTaskThatFailsEndsTheOthers() {
    long start = System.nanoTime();
    SparkException error =
        assertThrows(
            SparkException.class,
            () ->
                perTask(
                        (rank, own) -> {
                          if (rank.rank() == 1) {
                            throw new IllegalStateException("its data are bad");
                          }
                          return List.of(BarrierAllReduce.allReduce(rank, new float[] {1})[0])
                              .iterator();
                        })
                    .collect());
    // Spark tells the error that reached the driver first: the task's, or another rank's about it.
    String messages = Cluster.messages(error);
    assertTrue(
        messages.contains("its data are bad") || messages.contains("rank 1 (host "), messages);
    assertSlotsAreFree(start);
  }

  /** The others wait for it in an operation; Spark runs the stage again with a new executor. */
  @Test
  void anExecutorThatDiesEndsTheOthers() {
    long start = System.nanoTime();
    List<Float> sums =
        perTask(
                (rank, own) -> {
                  if (TaskContext.get().stageAttemptNumber() == 0 && rank.rank() == 1) {
                    Runtime.getRuntime().halt(9);
                  }
                  return List.of(BarrierAllReduce.allReduce(rank, new float[] {1})[0]).iterator();
                })
            .repartition(RANKS)
            .collect();
    assertEquals(List.of(3f, 3f, 3f), sums);
    assertSlotsAreFree(start);
  }

  /** Spark sets a flag in the tasks, and interrupts nobody. */
  @Test
  void aCancelledJobEndsItsRanks() throws Exception {
    JavaFutureAction<List<Float>> job =
        perTask(
                (rank, own) -> {
                  if (rank.rank() > 0) {
                    return List.of(BarrierAllReduce.allReduce(rank, new float[] {1})[0]).iterator();
                  }
                  while (!TaskContext.get().isInterrupted()) {
                    Thread.sleep(10); // calls nothing until the job is cancelled
                  }
                  return List.of(0f).iterator();
                })
            .collectAsync();
    while (spark.statusTracker().getActiveStageIds().length == 0) {
      assertFalse(job.isDone(), "the job has ended");
      Thread.sleep(10);
    }
    Thread.sleep(3000); // until they have joined; less time is no error
    long start = System.nanoTime();
    job.cancel(true);
    assertSlotsAreFree(start);
  }

  /** Another barrier stage needs all slots. */
  private static void assertSlotsAreFree(long start) {
    assertEquals(RANKS, perTask((rank, own) -> List.of(rank.rank()).iterator()).collect().size());
    long nanos = System.nanoTime() - start;
    assertTrue(nanos < QUICK_NANOS, "ranks waited for %d ms".formatted(nanos / 1_000_000));
  }

  @Test
  void aStageThatIsNoBarrierIsNamed() {
    SparkException error =
        assertThrows(
            SparkException.class,
            () ->
                spark
                    .parallelize(List.of(1, 2, 3), RANKS)
                    .map(row -> BarrierRank.join(RankOptions.host()).rank())
                    .collect());
    assertTrue(Cluster.messages(error).contains("is not a barrier stage"), error.getMessage());
  }

  @Test
  void ranksWithoutGpusHearWhatToSet() {
    SparkException error =
        assertThrows(
            SparkException.class,
            () ->
                BarrierStage.mapPartitions(
                        spark.parallelize(List.of(1, 2, 3), RANKS),
                        RankOptions.gpu(),
                        (rank, own) -> own)
                    .collect());
    String messages = Cluster.messages(error);
    assertTrue(messages.contains("has no address of the resource \"gpu\""), messages);
    assertTrue(messages.contains("spark.task.resource.gpu.amount=1"), messages);
  }

  /** More ranks than slots: Spark's own check says so before a task begins. */
  @Test
  void ranksThatDoNotFitAreRefused() {
    Exception error =
        assertThrows(
            Exception.class,
            () ->
                BarrierStage.mapPartitions(
                        spark.parallelize(List.of(1, 2, 3, 4), RANKS + 1),
                        RankOptions.host(),
                        (rank, own) -> own)
                    .collect());
    assertTrue(Cluster.messages(error).contains("SPARK-24819"), Cluster.messages(error));
  }

  private static <R> JavaRDD<R> perTask(RankFunction<Integer, R> function) {
    return BarrierStage.mapPartitions(
        spark.parallelize(IntStream.range(0, RANKS).boxed().toList(), RANKS),
        RankOptions.host(),
        function);
  }
}
