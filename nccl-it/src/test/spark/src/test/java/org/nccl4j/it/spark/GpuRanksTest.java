package org.nccl4j.it.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import java.util.Random;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.IntStream;
import jnr.ffi.LibraryLoader;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkException;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.resource.ResourceProfile;
import org.apache.spark.resource.ResourceProfileBuilder;
import org.apache.spark.resource.TaskResourceRequests;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.CommunicatorConfig.CtaPolicy;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.spark.BarrierRank;
import org.nccl4j.spark.BarrierStage;
import org.nccl4j.spark.RankFunction;
import org.nccl4j.spark.RankOptions;

/**
 * Ranks on GPUs: a worker whose discovery script finds two GPUs, and two executors with one each.
 * With -Dnccl4j.spark.gpus=N the GPUs of this machine, N executors and checked sums; else the fake
 * driver, which copies data and runs no kernels.
 */
@Timeout(600)
final class GpuRanksTest {
  private static final boolean IS_REAL = Integer.getInteger("nccl4j.spark.gpus", 0) > 0;
  private static final int RANKS = IS_REAL ? Integer.getInteger("nccl4j.spark.gpus") : 2;
  private static final int BYTES = 100_000;

  @TempDir private static Path folder;
  private static JavaSparkContext spark;

  @BeforeAll
  static void start() throws Exception {
    SparkConf settings =
        Cluster.settings("local-cluster[1,%d,%d]".formatted(RANKS, RANKS * 512), RANKS)
            .set("spark.executor.cores", "1")
            .set("spark.worker.resource.gpu.amount", Integer.toString(RANKS))
            .set("spark.worker.resource.gpu.discoveryScript", discovery())
            .set("spark.executor.resource.gpu.amount", "1")
            .set("spark.task.resource.gpu.amount", "1");
    if (!IS_REAL) {
      String fake = System.getProperty("nccl4j.spark.fake");
      assumeTrue(Files.exists(Path.of(fake, "libcuda.so.1")), "no gcc or no cuda.h");
      settings.set("spark.executorEnv.LD_LIBRARY_PATH", fake);
    }
    spark = new JavaSparkContext(settings);
  }

  /** A script that prints the GPUs as Spark's own getGpusResources.sh does. */
  private static String discovery() throws IOException {
    String addresses =
        String.join(", ", IntStream.range(0, RANKS).mapToObj(gpu -> "\"" + gpu + "\"").toList());
    Path script = folder.resolve("gpus.sh");
    Files.writeString(
        script, "#!/bin/sh\necho '{\"name\": \"gpu\", \"addresses\":[" + addresses + "]}'\n");
    Files.setPosixFilePermissions(script, PosixFilePermissions.fromString("rwxr-xr-x"));
    return script.toString();
  }

  @AfterAll
  static void stop() {
    if (spark != null) {
      spark.stop();
    }
  }

  private static JavaRDD<Integer> tasks() {
    return spark.parallelize(IntStream.range(0, RANKS).boxed().toList(), RANKS);
  }

  private static <R> List<R> perTask(RankOptions options, RankFunction<Integer, R> function) {
    return BarrierStage.mapPartitions(tasks(), options, function).collect();
  }

  @Test
  void everyRankHasAGpuAndAProcessOfItsOwn() {
    TreeMap<String, String> processes = new TreeMap<>();
    perTask(
            RankOptions.gpu(),
            (rank, own) -> List.of(gpu(rank) + " " + ProcessHandle.current().pid()).iterator())
        .forEach(line -> processes.put(line.split(" ")[0], line.split(" ")[1]));
    assertEquals(RANKS, processes.size(), processes.toString());
    assertEquals(RANKS, new TreeSet<>(processes.values()).size(), processes.toString());
  }

  private static String gpu(BarrierRank rank) {
    return ((CudaDevice) rank.device()).id();
  }

  /** On the fake driver: every executor has launched the kernel on its GPU; else the sums too. */
  @Test
  void allReduceRunsOnEveryGpu() {
    List<String> ends =
        perTask(
            RankOptions.gpu(),
            (rank, own) -> {
              float[] sum = BarrierAllReduce.allReduce(rank, new float[] {1 << rank.rank(), 1});
              return List.of(IS_REAL ? sum[0] + " " + sum[1] : launched()).iterator();
            });
    String expected = IS_REAL ? ((1 << RANKS) - 1) + ".0 " + RANKS + ".0" : "launched";
    assertEquals(List.of(expected), ends.stream().distinct().toList());
    assertEquals(RANKS, ends.size());
  }

  private static String launched() {
    String calls = LibraryLoader.create(FakeDriver.class).load("libcuda.so.1").fakeRecord();
    return calls.contains("cuLaunchKernelEx(") ? "launched" : calls;
  }

  /** Copy engines carry the data between the executors' memory, which the fake driver does too. */
  @Test
  void everyExecutorGathersTheOthersData() {
    RankOptions copies =
        RankOptions.gpu().withConfig(CommunicatorConfig.defaults().withCtaPolicy(CtaPolicy.ZERO));
    List<Boolean> right = perTask(copies, (rank, own) -> List.of(gathers(rank)).iterator());
    assertEquals(List.of(true), right.stream().distinct().toList());
    assertEquals(RANKS, right.size());
  }

  private static boolean gathers(BarrierRank rank) {
    byte[] expected = new byte[BYTES * rank.nRanks()];
    new Random(3).nextBytes(expected);
    try (DeviceStream stream = rank.device().createStream();
        DeviceMemory part = rank.device().memAlloc(BYTES);
        DeviceMemory whole = rank.device().memAlloc(expected.length)) {
      part.write(0, ByteBuffer.wrap(expected, BYTES * rank.rank(), BYTES));
      rank.communicator().registerWindow(whole);
      rank.communicator().registerWindow(part);
      rank.communicator().allGather(part, whole, BYTES, DataType.INT8, stream);
      stream.synchronize();
      byte[] found = new byte[expected.length];
      whole.read(0, ByteBuffer.wrap(found));
      rank.close(); // before its windows' memory
      return java.util.Arrays.equals(expected, found);
    }
  }

  /** Stage-level scheduling: the profile of the RDD counts, whatever the application's is. */
  @Test
  void theProfileOfTheStageGivesTheAddresses() {
    ResourceProfile gpus =
        new ResourceProfileBuilder()
            .require(new TaskResourceRequests().cpus(1).resource("gpu", 1))
            .build();
    List<String> found =
        BarrierStage.mapPartitions(
                tasks().withResources(gpus),
                RankOptions.gpu(),
                (rank, own) -> List.of(gpu(rank)).iterator())
            .collect();
    assertEquals(RANKS, new TreeSet<>(found).size(), found.toString());
  }

  @Test
  void aProfileWithoutGpusGivesNoAddress() {
    ResourceProfile none =
        new ResourceProfileBuilder().require(new TaskResourceRequests().cpus(1)).build();
    SparkException error =
        assertThrows(
            SparkException.class,
            () ->
                BarrierStage.mapPartitions(
                        tasks().withResources(none), RankOptions.gpu(), (rank, own) -> own)
                    .collect());
    String messages = Cluster.messages(error);
    assertTrue(messages.contains("has no address of the resource \"gpu\""), messages);
  }

  @Test
  void moreRanksThanGpusAreRefused() {
    Exception error =
        assertThrows(
            Exception.class,
            () ->
                BarrierStage.mapPartitions(
                        tasks().repartition(RANKS + 1), RankOptions.gpu(), (rank, own) -> own)
                    .collect());
    assertTrue(Cluster.messages(error).contains("SPARK-24819"), Cluster.messages(error));
  }
}
