package org.nccl4j.it.flink;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.RestartStrategyOptions;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.runtime.client.JobCancellationException;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Jobs in a Flink of this process, with two task slots. */
@Timeout(180)
final class AllReduceOperatorTest {
  private static final int RANKS = 2;
  private static final int LENGTH = 10_007;
  private static final int VECTORS = 9;
  private static final TypeInformation<float[]> TYPE =
      PrimitiveArrayTypeInfo.FLOAT_PRIMITIVE_ARRAY_TYPE_INFO;

  private static final AtomicBoolean HAS_FAILED = new AtomicBoolean();
  private static final List<float[]> FOUND = new CopyOnWriteArrayList<>();
  private static final CountDownLatch SLEEPS = new CountDownLatch(1);

  private static StreamExecutionEnvironment environment() {
    Configuration settings = new Configuration();
    settings.set(RestartStrategyOptions.RESTART_STRATEGY, "fixed-delay");
    settings.set(RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_ATTEMPTS, 3);
    settings.set(RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_DELAY, Duration.ofMillis(100));
    return StreamExecutionEnvironment.createLocalEnvironment(RANKS, settings);
  }

  private static DataStream<float[]> sums(
      StreamExecutionEnvironment environment, MapFunction<Long, Long> before) {
    return environment
        .fromSequence(0, VECTORS - 1)
        .map(before)
        .map(AllReduceOperatorTest::vector)
        .returns(TYPE)
        .transform("sum", TYPE, new AllReduceOperator(LENGTH));
  }

  /** Small whole numbers: sums are exact, in any order. */
  private static float[] vector(long seed) {
    Random random = new Random(seed);
    float[] vector = new float[LENGTH];
    for (int i = 0; i < LENGTH; i++) {
      vector[i] = random.nextInt(1000);
    }
    return vector;
  }

  private static void assertSums(List<float[]> found) {
    float[] expected = new float[LENGTH];
    for (int row = 0; row < VECTORS; row++) {
      float[] vector = vector(row);
      for (int i = 0; i < LENGTH; i++) {
        expected[i] += vector[i];
      }
    }
    assertEquals(RANKS, found.size());
    found.forEach(sum -> assertArrayEquals(expected, sum));
  }

  @Test
  void everySubtaskHasTheSum() throws Exception {
    assertSums(sums(environment(), row -> row).executeAndCollect(RANKS + 1));
  }

  /** One subtask fails after all have met; the others fail with it, and all meet again. */
  @Test
  void aJobThatIsStartedAgainHasTheSum() throws Exception {
    StreamExecutionEnvironment environment = environment();
    sums(
            environment,
            row -> {
              if (row == VECTORS - 1 && HAS_FAILED.compareAndSet(false, true)) {
                throw new IllegalStateException("the first attempt fails");
              }
              return row;
            })
        .map(
            sum -> {
              FOUND.add(sum);
              return sum;
            })
        .returns(TYPE)
        .sinkTo(new DiscardingSink<>());
    environment.execute();
    assertTrue(HAS_FAILED.get());
    assertSums(FOUND);
  }

  /** One subtask waits in the all-reduce for one that does not come to it. */
  @Test
  void aCancelledJobEnds() throws Exception {
    StreamExecutionEnvironment environment = environment();
    sums(environment, new Sleeper()).sinkTo(new DiscardingSink<>());
    JobClient job = environment.executeAsync();
    assertTrue(SLEEPS.await(60, TimeUnit.SECONDS));
    job.cancel().get(60, TimeUnit.SECONDS);
    Throwable end =
        assertThrows(
                ExecutionException.class,
                () -> job.getJobExecutionResult().get(25, TimeUnit.SECONDS))
            .getCause();
    while (!(end instanceof JobCancellationException)) {
      assertNotNull(end.getCause(), end.toString());
      end = end.getCause();
    }
  }

  private static final class Sleeper extends RichMapFunction<Long, Long> {
    private static final long serialVersionUID = 1L;

    private transient int subtask;

    @Override
    public void open(OpenContext context) {
      subtask = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
    }

    @Override
    public Long map(Long row) throws Exception {
      if (subtask == 1) {
        SLEEPS.countDown();
        Thread.sleep(Duration.ofHours(1).toMillis());
      }
      return row;
    }
  }
}
