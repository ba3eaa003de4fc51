package org.nccl4j.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.function.IntFunction;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RemoteException;
import org.nccl4j.device.TimeoutException;

/** Ranks of a barrier stage, with threads in the place of Spark's executors. */
@Timeout(600)
class BarrierRankTest {
  private static final int TASKS = 3;
  private static final long QUICK_NANOS = Duration.ofSeconds(50).toNanos();
  private static final IntFunction<Map<String, List<String>>> NOTHING = task -> Map.of();
  private static final RankOptions HOST = options(RankOptions.host());

  private static RankOptions options(RankOptions options) {
    return options.withConfig(
        CommunicatorConfig.defaults()
            .withOperationTimeout(Duration.ofMinutes(10))
            .with("NCCL_SOCKET_IFNAME", "lo"));
  }

  @Test
  void eachTaskGetsTheSum() throws Exception {
    MemoryStage stage = new MemoryStage(TASKS, NOTHING);
    List<Object> sums =
        stage.run(
            task -> {
              BarrierRank rank = BarrierRank.join(task, HOST);
              assertEquals(task.rank(), rank.rank());
              assertEquals(TASKS, rank.nRanks());
              assertEquals("spark-7.0", rank.communicator().name());
              return Sums.sum(rank, 1 << task.rank());
            });
    assertEquals(List.of(7, 7, 7), sums);
  }

  @Test
  void aTaskJoinsSeveralTimes() throws Exception {
    List<Object> sums =
        new MemoryStage(TASKS, NOTHING)
            .run(
                task -> {
                  int sum = 0;
                  for (int time = 1; time <= 2; time++) {
                    try (BarrierRank rank = BarrierRank.join(task, HOST)) {
                      sum += Sums.sum(rank, time);
                    }
                  }
                  return sum;
                });
    assertEquals(List.of(9, 9, 9), sums);
  }

  @Test
  void theTaskEndsItsRank() throws Exception {
    BarrierRank[] ranks = new BarrierRank[TASKS];
    new MemoryStage(TASKS, NOTHING).run(task -> ranks[task.rank()] = BarrierRank.join(task, HOST));
    for (BarrierRank rank : ranks) {
      NcclException error = assertThrows(InvalidUsageException.class, () -> Sums.sum(rank, 1));
      assertTrue(error.getMessage().contains("NCCL4J-CLOSED"), error.getMessage());
    }
  }

  @Test
  void aTaskThatFailsEndsTheOthers() throws Exception {
    long start = System.nanoTime();
    List<Object> ends =
        new MemoryStage(TASKS, NOTHING)
            .run(
                task -> {
                  BarrierRank rank = BarrierRank.join(task, HOST);
                  Sums.sum(rank, 1);
                  if (task.rank() == 1) {
                    throw new IllegalStateException("its data are bad");
                  }
                  return Sums.sum(rank, 1);
                });
    assertTrue(System.nanoTime() - start < QUICK_NANOS, "others wait for a task that is gone");
    assertInstanceOf(IllegalStateException.class, ends.get(1));
    assertInstanceOf(NcclException.class, ends.get(0));
    assertInstanceOf(NcclException.class, ends.get(2));
  }

  /** As Spark does with all tasks when one has failed: it sets a flag, and interrupts nobody. */
  @Test
  void aTaskThatIsKilledEndsItsOperations() throws Exception {
    long start = System.nanoTime();
    MemoryStage stage = new MemoryStage(TASKS, NOTHING);
    CountDownLatch waits = new CountDownLatch(1);
    List<Object> ends =
        stage.run(
            task -> {
              BarrierRank rank = BarrierRank.join(task, HOST);
              if (task.rank() == 1) {
                waits.countDown();
                stage.task(2).kill();
                return 0; // its rank is closed, with operations that it has not called
              }
              waits.await();
              return Sums.sum(rank, 1);
            });
    assertTrue(System.nanoTime() - start < QUICK_NANOS, "a killed task waits on");
    assertInstanceOf(NcclException.class, ends.get(0));
    assertInstanceOf(NcclException.class, ends.get(2));
  }

  /** The kill alone ends an operation: the other rank lives and calls nothing. */
  @Test
  void aKilledTaskDoesNotWaitForTheDeadline() throws Exception {
    MemoryStage stage = new MemoryStage(2, NOTHING);
    CountDownLatch ended = new CountDownLatch(1);
    List<Object> ends =
        stage.run(
            task -> {
              BarrierRank rank = BarrierRank.join(task, HOST);
              if (task.rank() == 0) {
                ended.await();
                return "called nothing";
              }
              try {
                task.kill();
                return Sums.sum(rank, 1);
              } finally {
                ended.countDown();
              }
            });
    assertEquals("called nothing", ends.get(0));
    NcclException error = assertInstanceOf(NcclException.class, ends.get(1));
    assertTrue(error.getMessage().contains("abort"), error.getMessage());
  }

  @Test
  void aTaskWithoutAnAddressIsNamed() throws Exception {
    List<Object> ends = joinGpus(task -> Map.of("fpga", List.of("0")));
    for (int rank = 0; rank < TASKS; rank++) {
      String message = assertInstanceOf(InvalidUsageException.class, ends.get(rank)).getMessage();
      String fact =
          "task %d of stage 7.0 has no address of the resource \"gpu\"; Spark gave it {fpga=[0]}"
              .formatted(rank);
      assertTrue(message.startsWith(fact), message);
      assertTrue(message.contains("spark.task.resource.gpu.amount=1"), message);
    }
  }

  @Test
  void aTaskWithSeveralAddressesIsRefused() throws Exception {
    List<Object> ends = joinGpus(task -> Map.of("gpu", List.of("0", "1")));
    String message = assertInstanceOf(InvalidUsageException.class, ends.get(0)).getMessage();
    assertTrue(message.contains("has 2 addresses of the resource \"gpu\", [0, 1]"), message);
  }

  /** No machine has that many GPUs. */
  @Test
  void anAddressWithoutAGpuIsNamed() throws Exception {
    for (String address : List.of("999999", "0000:ff:1f.7", "GPU-0")) {
      List<Object> ends = joinGpus(task -> Map.of("gpu", List.of(address)));
      NcclException error = assertInstanceOf(NcclException.class, ends.get(2));
      String fact = "task 2 of stage 7.0 has the address " + address + " of the resource \"gpu\": ";
      assertTrue(error.getMessage().startsWith(fact), error.getMessage());
    }
  }

  /** The others do not wait for it. */
  @Test
  void allTasksHearOfTheOneThatCannotJoin() throws Exception {
    MemoryStage stage = new MemoryStage(TASKS, NOTHING);
    List<Object> ends =
        stage.run(
            task -> BarrierRank.join(task, task.rank() == 1 ? options(RankOptions.gpu()) : HOST));
    assertInstanceOf(InvalidUsageException.class, ends.get(1));
    for (int rank : new int[] {0, 2}) {
      String message = assertInstanceOf(RemoteException.class, ends.get(rank)).getMessage();
      assertTrue(message.contains("because task 1 cannot: task 1 of stage 7.0 has no"), message);
    }
  }

  private static List<Object> joinGpus(IntFunction<Map<String, List<String>>> resources)
      throws InterruptedException {
    MemoryStage stage = new MemoryStage(TASKS, resources);
    return stage.run(task -> BarrierRank.join(task, options(RankOptions.gpu())));
  }

  @Test
  void tasksDoNotWaitForEverForOneThatDoesNotCome() throws Exception {
    RankOptions hurried = HOST.withStartTimeout(Duration.ofMillis(300));
    List<Object> ends =
        new MemoryStage(TASKS, NOTHING)
            .run(task -> task.rank() == 2 ? "elsewhere" : BarrierRank.join(task, hurried));
    for (int rank = 0; rank < 2; rank++) {
      String message = assertInstanceOf(TimeoutException.class, ends.get(rank)).getMessage();
      assertTrue(message.contains("waited 0.3 s for the other 2 tasks to join"), message);
    }
  }

  @Test
  void aTaskThatIsKilledBeforeItJoinsEnds() throws Exception {
    MemoryStage stage = new MemoryStage(TASKS, NOTHING);
    stage.task(0).kill();
    List<Object> ends =
        stage.run(task -> task.rank() == 2 ? "elsewhere" : joinUnlessKilled(stage, task));
    String message = assertInstanceOf(InvalidUsageException.class, ends.get(0)).getMessage();
    assertTrue(message.contains("Spark ends task 0 of stage 7.0"), message);
  }

  private static Object joinUnlessKilled(MemoryStage stage, StageTask task) {
    if (task.rank() == 1) {
      stage.task(1).kill();
    }
    return BarrierRank.join(task, HOST);
  }

  @Test
  void outsideATaskTheErrorSaysWhatToCall() {
    String message = assertThrows(InvalidUsageException.class, BarrierRank::join).getMessage();
    assertTrue(message.startsWith("this thread runs no task of Spark"), message);
    assertTrue(message.contains("BarrierStage.mapPartitions"), message);
  }

  @Test
  void shortDeadlinesAreRefused() {
    assertThrows(InvalidArgumentException.class, () -> HOST.withStartTimeout(Duration.ZERO));
  }

  @Test
  void optionsTravelToExecutors() throws Exception {
    CommunicatorConfig config =
        CommunicatorConfig.defaults()
            .withName("training")
            .withSplitShare(false)
            .withShrinkShare(true)
            .withOperationTimeout(Duration.ofSeconds(9))
            .with("NCCL_ALGO", "Ring");
    RankOptions sent =
        RankOptions.gpu("accelerator").withStartTimeout(Duration.ofHours(1)).withConfig(config);
    RankOptions got = copy(sent);
    assertEquals(sent.toString(), got.toString());
    assertEquals(config.toString(), got.config().toString());
    assertEquals("accelerator", got.resource().orElseThrow());
    assertEquals(Duration.ofHours(1), got.startTimeout());
    assertTrue(copy(RankOptions.host()).resource().isEmpty());
  }

  private static RankOptions copy(RankOptions options) throws IOException, ClassNotFoundException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try (ObjectOutputStream out = new ObjectOutputStream(bytes)) {
      out.writeObject(options);
    }
    try (ObjectInputStream in =
        new ObjectInputStream(new ByteArrayInputStream(bytes.toByteArray()))) {
      return (RankOptions) in.readObject();
    }
  }
}
