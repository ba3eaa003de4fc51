package org.nccl4j.it.plan;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.nccl4j.device.DataType;
import org.nccl4j.it.plan.Traffic.Axis;
import org.nccl4j.operation.Operation;

/** Calls and bytes of layouts follow the published formulas. */
class TrafficTest {
  /** 12 layers of 1024: 12 h² parameters in each matrix set, and 2 h in the norms. */
  private static final ModelShape SMALL =
      new ModelShape("small", 12, 1024, 16, 16, 4096, false, 32000, 512, true);

  private static final long LAYER = 12L * 1024 * 1024 + 2 * 1024;

  private static Job job(ModelShape model, int gpus, int batch, boolean sequenceParallel) {
    return new Job(model, gpus, 8, batch, 2, DataType.FLOAT16, sequenceParallel, false, 1e15);
  }

  private static long bytes(List<Traffic> traffic, Axis axis, Operation operation) {
    return traffic.stream()
        .filter(each -> each.axis() == axis && each.operation() == operation)
        .mapToLong(each -> each.bytes() * each.calls())
        .sum();
  }

  /** Bytes that a GPU sends: an all-reduce is a reduce-scatter and an all-gather. */
  private static double sent(List<Traffic> traffic, Axis axis) {
    return traffic.stream()
        .filter(each -> each.axis() == axis)
        .mapToDouble(
            each ->
                (each.operation() == Operation.ALL_REDUCE ? 2.0 : 1.0)
                    * (each.ranks() - 1)
                    / each.ranks()
                    * each.bytes()
                    * each.calls())
        .sum();
  }

  /** Billions of parameters as their authors state them, to the last digit. */
  @ParameterizedTest
  @CsvSource({
    "gpt2-xl, 1.55, 0.02",
    "gpt-7b, 6.65, 0.02",
    "gpt-175b, 174.6, 0.5",
    "llama-2-7b, 6.74, 0.01",
    "llama-2-70b, 68.98, 0.05",
    "llama-3-8b, 8.03, 0.01",
    "llama-3-70b, 70.55, 0.05",
    "llama-3.1-405b, 405.9, 0.1",
    "mistral-7b, 7.24, 0.01"
  })
  void modelsHaveTheirPublishedSize(String name, double billions, double tolerance) {
    assertEquals(billions, ModelShape.named(name).orElseThrow().parameters() / 1e9, tolerance);
  }

  @ParameterizedTest
  @EnumSource(Sharding.class)
  void oneGpuSendsNothing(Sharding sharding) {
    assertEquals(List.of(), Traffic.of(job(SMALL, 1, 8, false), new Layout(1, 1, 1, 1, sharding)));
  }

  /** Four sums of a layer, and one at each end, of batch x sequence x hidden elements. */
  @Test
  void tensorParallelSumsFourTimesALayer() {
    Job job = job(SMALL, 8, 64, false);
    List<Traffic> traffic = Traffic.of(job, new Layout(4, 1, 2, 1, Sharding.ddp));
    long perReplica = 32L * 512 * 1024 * 2;
    assertEquals((4 * 12 + 2) * perReplica, bytes(traffic, Axis.tensor, Operation.ALL_REDUCE));
  }

  /** Of each layer one all-gather more: the block's inputs, which a rank did not keep. */
  @Test
  void sequenceParallelGathersTheInputsOnceMore() {
    Layout layout = new Layout(4, 1, 2, 1, Sharding.ddp);
    double plain = sent(Traffic.of(job(SMALL, 8, 64, false), layout), Axis.tensor);
    double divided = sent(Traffic.of(job(SMALL, 8, 64, true), layout), Axis.tensor);
    double inputs = 2 * 12 * 0.75 * 32 * 512 * 1024 * 2;
    assertEquals(plain + inputs, divided, 1);
  }

  /**
   * All gradients once; a reduce-scatter and an all-gather send as much; fsdp half as much more.
   */
  @Test
  void dataParallelSendsTheParameters() {
    Job job = job(SMALL, 8, 16, false);
    long parameters = 12 * LAYER + 32000L * 1024;
    List<Traffic> ddp = Traffic.of(job, new Layout(1, 1, 8, 1, Sharding.ddp));
    assertEquals(2 * parameters, bytes(ddp, Axis.data, Operation.ALL_REDUCE));
    List<Traffic> zero = Traffic.of(job, new Layout(1, 1, 8, 1, Sharding.zero1));
    assertEquals(2 * parameters, bytes(zero, Axis.data, Operation.REDUCE_SCATTER));
    assertEquals(2 * parameters, bytes(zero, Axis.data, Operation.ALL_GATHER));
    assertEquals(sent(ddp, Axis.data), sent(zero, Axis.data), 1);
    List<Traffic> fsdp = Traffic.of(job, new Layout(1, 1, 8, 1, Sharding.fsdp));
    assertEquals(1.5 * sent(ddp, Axis.data), sent(fsdp, Axis.data), 1);
  }

  @Test
  void onlyFsdpPaysForEachMicroBatch() {
    for (Sharding sharding : Sharding.values()) {
      Layout layout = new Layout(1, 1, 8, 1, sharding);
      double one = sent(Traffic.of(job(SMALL, 8, 16, false), layout), Axis.data);
      double four = sent(Traffic.of(job(SMALL, 8, 64, false), layout), Axis.data);
      assertEquals(sharding == Sharding.fsdp ? 4 * one : one, four, 1);
    }
  }

  /** Keys and values of a sequence: gathered forward and backward, their gradients scattered. */
  @Test
  void contextParallelGathersKeysAndValues() {
    ModelShape grouped = new ModelShape("g", 12, 1024, 16, 4, 4096, false, 32000, 512, true);
    List<Traffic> traffic =
        Traffic.of(job(grouped, 8, 16, false), new Layout(2, 4, 1, 1, Sharding.ddp));
    long keysAndValues = 2L * 16 * 512 * (1024 / 4) * 2 / 2;
    assertEquals(12 * 2 * keysAndValues, bytes(traffic, Axis.context, Operation.ALL_GATHER));
    assertEquals(12 * keysAndValues, bytes(traffic, Axis.context, Operation.REDUCE_SCATTER));
  }

  /** A stage passes each micro-batch on, and its gradient back. */
  @Test
  void stagesPassTheStreamBothWays() {
    Job job = job(SMALL, 8, 16, false);
    List<Traffic> traffic = Traffic.of(job, new Layout(1, 1, 2, 4, Sharding.ddp));
    Traffic send = traffic.get(0);
    assertEquals(
        new Traffic(Axis.pipeline, Operation.SEND, 2, 0, 2, 2L * 512 * 1024 * 2, 2 * 4), send);
    // A stage reduces the gradients of its own layers.
    long stage = 2 * (3 * LAYER + 32000L * 1024);
    assertEquals(stage, bytes(traffic, Axis.data, Operation.ALL_REDUCE));
  }

  /** Groups are taken where they are slowest: where they leave a machine. */
  @Test
  void groupsThatLeaveAMachineCount() {
    Job job = job(SMALL, 48, 96, false);
    Traffic stage = Traffic.of(job, new Layout(1, 1, 4, 12, Sharding.ddp)).get(0);
    assertEquals(4, stage.first(), "from GPU 4 of the first machine to GPU 0 of the next");
    Traffic gradients = Traffic.of(job, new Layout(1, 1, 3, 4, Sharding.ddp)).get(1);
    assertEquals(6, gradients.first(), "GPUs 6 and 7, and the next machine's GPU 0");
  }

  @Test
  void layoutsUseAllGpusAndDivideTheModel() {
    Job job = job(ModelShape.named("llama-3-8b").orElseThrow(), 64, 1024, false);
    List<Layout> layouts = Layout.of(job, List.of(Sharding.values()), 4);
    assertTrue(layouts.size() > 50);
    assertEquals(layouts.size(), layouts.stream().distinct().count());
    for (Layout layout : layouts) {
      assertEquals(64, layout.tensor() * layout.context() * layout.data() * layout.pipeline());
      assertEquals(0, 32 % layout.pipeline());
      assertTrue(layout.tensor() <= 8 && layout.context() <= 4, layout.toString());
    }
  }

  /** 16 bytes a parameter without division, and the published 34 s b h a layer of activations. */
  @Test
  void memoryFollowsTheFormulas() {
    Job job = job(SMALL, 8, 16, false);
    double parameters = 12.0 * LAYER + 32000 * 1024;
    MemoryNeed whole = MemoryNeed.of(job, new Layout(1, 1, 8, 1, Sharding.ddp));
    assertEquals(16 * parameters, whole.weights() + whole.optimizer(), 1);
    double logits = 8.0 * 2 * 512 * 32000;
    assertEquals(12 * 34.0 * 2 * 512 * 1024 + logits, whole.activations(), 1);
    MemoryNeed zero = MemoryNeed.of(job, new Layout(1, 1, 8, 1, Sharding.zero1));
    assertEquals(4 * parameters + 12 * parameters / 8, zero.weights() + zero.optimizer(), 1);
    MemoryNeed fsdp = MemoryNeed.of(job, new Layout(1, 1, 8, 1, Sharding.fsdp));
    assertTrue(fsdp.bytes() < zero.bytes());
  }
}
