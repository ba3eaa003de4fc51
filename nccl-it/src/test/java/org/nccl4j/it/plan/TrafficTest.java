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
    return new Job(
        model, gpus, 8, batch, 2, DataType.FLOAT16, sequenceParallel, false, false, 1e15);
  }

  /** The same job, of which a layer keeps its input alone. */
  private static Job recomputing(Job job) {
    return new Job(
        job.model(),
        job.gpus(),
        job.gpusPerMachine(),
        job.batch(),
        job.microBatch(),
        job.type(),
        job.sequenceParallel(),
        job.dispatchFp8(),
        true,
        job.memoryBytes());
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

  /** The last stage but one has more layers than the last and the first, but no embedding. */
  @Test
  void theStageWithTheMostLayersHasTheirCallsAlone() {
    ModelShape model = new ModelShape("seven", 7, 1024, 16, 16, 4096, false, 32000, 512, false);
    Job job = job(model, 6, 4, false);
    Layout layout = new Layout(2, 1, 1, 3, 1, Sharding.ddp);
    assertEquals("2-3", layout.stages(model).toString());
    long stream = 2L * 512 * 1024 * 2;
    long micro = 2;
    for (int stage = 0; stage < 3; stage++) {
      long layers = stage == 1 ? 3 : 2;
      long ends = stage == 1 ? 0 : micro;
      assertEquals(
          stream * (4 * micro * layers + ends),
          bytes(Traffic.of(job, layout, stage), Axis.tensor, Operation.ALL_REDUCE));
    }
    Layout replicas = new Layout(1, 1, 2, 3, 1, Sharding.ddp);
    long layer = model.layerParameters();
    long embedding = model.embeddingParameters();
    long[] parameters = {2 * layer + embedding, 3 * layer, 2 * layer + embedding};
    for (int stage = 0; stage < 3; stage++) {
      assertEquals(
          2 * parameters[stage],
          bytes(Traffic.of(job, replicas, stage), Axis.data, Operation.ALL_REDUCE));
    }
  }

  @ParameterizedTest
  @CsvSource({"61, 16", "61, 61", "61, 1", "7, 4", "7, 6", "126, 16", "64, 8"})
  void stagesHaveAllLayers(int layers, int number) {
    Stages stages = new Stages(layers, number);
    int sum = 0;
    for (int stage = 0; stage < number; stage++) {
      assertEquals(sum, stages.begin(stage));
      sum += stages.of(stage);
      assertTrue(stages.of(stage) >= layers / number);
      assertTrue(stages.of(stage) <= (layers + number - 1) / number);
    }
    assertEquals(layers, sum);
    assertEquals(layers / number, stages.of(number - 1), "it has the output matrix too");
    assertEquals(layers % number == 0, stages.areEqual());
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
    "mistral-7b, 7.24, 0.01",
    "mixtral-8x7b, 46.7, 0.05",
    "mixtral-8x22b, 140.6, 0.1",
    "dbrx, 132, 0.5",
    "olmoe-1b-7b, 6.92, 0.01",
    "deepseek-v2-lite, 15.7, 0.05",
    "deepseek-v2, 236, 0.5",
    "deepseek-v3, 671, 0.5"
  })
  void modelsHaveTheirPublishedSize(String name, double billions, double tolerance) {
    assertEquals(billions, ModelShape.named(name).orElseThrow().parameters() / 1e9, tolerance);
  }

  @ParameterizedTest
  @CsvSource({
    "mixtral-8x7b, 12.9, 0.05",
    "mixtral-8x22b, 39.1, 0.1",
    "dbrx, 36, 0.5",
    "olmoe-1b-7b, 1.28, 0.01",
    "llama-3-8b, 8.03, 0.01",
    "deepseek-v2, 21, 0.5",
    "deepseek-v3, 37, 0.6"
  })
  void tokensUseThePublishedPartOfAModel(String name, double billions, double tolerance) {
    ModelShape model = ModelShape.named(name).orElseThrow();
    assertEquals(billions, model.activeParameters() / 1e9, tolerance);
  }

  @ParameterizedTest
  @EnumSource(Sharding.class)
  void oneGpuSendsNothing(Sharding sharding) {
    assertEquals(
        List.of(), Traffic.of(job(SMALL, 1, 8, false), new Layout(1, 1, 1, 1, 1, sharding)));
  }

  /** Four sums of a layer, and one at each end, of batch x sequence x hidden elements. */
  @Test
  void tensorParallelSumsFourTimesALayer() {
    Job job = job(SMALL, 8, 64, false);
    List<Traffic> traffic = Traffic.of(job, new Layout(4, 1, 2, 1, 1, Sharding.ddp));
    long perReplica = 32L * 512 * 1024 * 2;
    assertEquals((4 * 12 + 2) * perReplica, bytes(traffic, Axis.tensor, Operation.ALL_REDUCE));
  }

  /** Of each layer one all-gather more: the block's inputs, which a rank did not keep. */
  @Test
  void sequenceParallelGathersTheInputsOnceMore() {
    Layout layout = new Layout(4, 1, 2, 1, 1, Sharding.ddp);
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
    List<Traffic> ddp = Traffic.of(job, new Layout(1, 1, 8, 1, 1, Sharding.ddp));
    assertEquals(2 * parameters, bytes(ddp, Axis.data, Operation.ALL_REDUCE));
    List<Traffic> zero = Traffic.of(job, new Layout(1, 1, 8, 1, 1, Sharding.zero1));
    assertEquals(2 * parameters, bytes(zero, Axis.data, Operation.REDUCE_SCATTER));
    assertEquals(2 * parameters, bytes(zero, Axis.data, Operation.ALL_GATHER));
    assertEquals(sent(ddp, Axis.data), sent(zero, Axis.data), 1);
    List<Traffic> fsdp = Traffic.of(job, new Layout(1, 1, 8, 1, 1, Sharding.fsdp));
    assertEquals(1.5 * sent(ddp, Axis.data), sent(fsdp, Axis.data), 1);
  }

  @Test
  void onlyFsdpPaysForEachMicroBatch() {
    for (Sharding sharding : Sharding.values()) {
      Layout layout = new Layout(1, 1, 8, 1, 1, sharding);
      double one = sent(Traffic.of(job(SMALL, 8, 16, false), layout), Axis.data);
      double four = sent(Traffic.of(job(SMALL, 8, 64, false), layout), Axis.data);
      assertEquals(sharding == Sharding.fsdp ? 4 * one : one, four, 1);
    }
  }

  /** The calls of a layer's forward pass come twice, those of its ends and its gradients once. */
  @Test
  void recomputationRepeatsTheForwardCalls() {
    Layout layout = new Layout(4, 1, 2, 1, 1, Sharding.ddp);
    long perReplica = 32L * 512 * 1024 * 2;
    List<Traffic> summed = Traffic.of(recomputing(job(SMALL, 8, 64, false)), layout);
    assertEquals((6 * 12 + 2) * perReplica, bytes(summed, Axis.tensor, Operation.ALL_REDUCE));
    List<Traffic> divided = Traffic.of(recomputing(job(SMALL, 8, 64, true)), layout);
    assertEquals((4 * 2 * 12 + 2) * perReplica, bytes(divided, Axis.tensor, Operation.ALL_GATHER));
    assertEquals(
        (3 * 2 * 12 + 2) * perReplica, bytes(divided, Axis.tensor, Operation.REDUCE_SCATTER));
    assertEquals(
        bytes(Traffic.of(job(SMALL, 8, 64, true), layout), Axis.data, Operation.ALL_REDUCE),
        bytes(divided, Axis.data, Operation.ALL_REDUCE));
    Layout sequences = new Layout(1, 4, 2, 1, 1, Sharding.ddp);
    List<Traffic> context = Traffic.of(recomputing(job(SMALL, 8, 16, false)), sequences);
    long keysAndValues = 2L * 2 * 512 * 1024 * 2;
    assertEquals(3 * 12 * 4 * keysAndValues, bytes(context, Axis.context, Operation.ALL_GATHER));
    assertEquals(12 * 4 * keysAndValues, bytes(context, Axis.context, Operation.REDUCE_SCATTER));
    List<Traffic> experts = Traffic.of(recomputing(mixtral(false, false)), SHARED_EXPERTS);
    long dispatched = 536_870_912L * 8 * 8 * 3;
    assertEquals(dispatched, bytes(experts, Axis.expert, Operation.DISPATCH));
    assertEquals(dispatched, bytes(experts, Axis.expert, Operation.COMBINE));
    assertEquals(16 * 268_435_456L, bytes(experts, Axis.pipeline, Operation.SEND));
  }

  /** Keys and values of a sequence: gathered forward and backward, their gradients scattered. */
  @Test
  void contextParallelGathersKeysAndValues() {
    ModelShape grouped = new ModelShape("g", 12, 1024, 16, 4, 4096, false, 32000, 512, true);
    List<Traffic> traffic =
        Traffic.of(job(grouped, 8, 16, false), new Layout(2, 4, 1, 1, 1, Sharding.ddp));
    long keysAndValues = 2L * 16 * 512 * (1024 / 4) * 2 / 2;
    assertEquals(12 * 2 * keysAndValues, bytes(traffic, Axis.context, Operation.ALL_GATHER));
    assertEquals(12 * keysAndValues, bytes(traffic, Axis.context, Operation.REDUCE_SCATTER));
  }

  /** A stage passes each micro-batch on, and its gradient back. */
  @Test
  void stagesPassTheStreamBothWays() {
    Job job = job(SMALL, 8, 16, false);
    List<Traffic> traffic = Traffic.of(job, new Layout(1, 1, 2, 4, 1, Sharding.ddp));
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
    Traffic stage = Traffic.of(job, new Layout(1, 1, 4, 12, 1, Sharding.ddp)).get(0);
    assertEquals(4, stage.first(), "from GPU 4 of the first machine to GPU 0 of the next");
    Traffic gradients = Traffic.of(job, new Layout(1, 1, 3, 4, 1, Sharding.ddp)).get(1);
    assertEquals(6, gradients.first(), "GPUs 6 and 7, and the next machine's GPU 0");
  }

  @Test
  void layoutsUseAllGpusAndDivideTheModel() {
    Job job = job(ModelShape.named("llama-3-8b").orElseThrow(), 64, 1024, false);
    List<Layout> layouts = Layout.of(job, List.of(Sharding.values()), new Layout.Most(4, 8));
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
    MemoryNeed whole = MemoryNeed.of(job, new Layout(1, 1, 8, 1, 1, Sharding.ddp));
    assertEquals(16 * parameters, whole.weights() + whole.optimizer(), 1);
    double logits = 8.0 * 2 * 512 * 32000;
    assertEquals(12 * 34.0 * 2 * 512 * 1024 + logits, whole.activations(), 1);
    MemoryNeed zero = MemoryNeed.of(job, new Layout(1, 1, 8, 1, 1, Sharding.zero1));
    assertEquals(4 * parameters + 12 * parameters / 8, zero.weights() + zero.optimizer(), 1);
    MemoryNeed fsdp = MemoryNeed.of(job, new Layout(1, 1, 8, 1, 1, Sharding.fsdp));
    assertTrue(fsdp.bytes() < zero.bytes());
  }

  /** 64 GPUs: 2 divide matrices, 4 of 8 replicas the experts, 4 are stages of 8 layers. */
  private static final Layout SHARED_EXPERTS = new Layout(2, 1, 8, 4, 4, Sharding.ddp);

  /** Of one sequence of 32768 tokens at a time, 8 of a replica in a step. */
  private static Job mixtral(boolean sequenceParallel, boolean fp8) {
    ModelShape model = ModelShape.named("mixtral-8x7b").orElseThrow();
    return new Job(model, 64, 8, 64, 1, DataType.FLOAT16, sequenceParallel, fp8, false, 1e15);
  }

  /** 32768 tokens, two experts each, 4096 elements of 2 bytes; 8 layers and 8 micro-batches. */
  @Test
  void tokensGoToTheirExpertsAndComeBack() {
    List<Traffic> traffic = Traffic.of(mixtral(false, false), SHARED_EXPERTS);
    assertEquals(
        List.of(
            new Traffic(Axis.tensor, Operation.ALL_REDUCE, 2, 0, 1, 268_435_456, 264),
            new Traffic(Axis.expert, Operation.DISPATCH, 4, 0, 2, 536_870_912, 128),
            new Traffic(Axis.expert, Operation.COMBINE, 4, 0, 2, 536_870_912, 128),
            new Traffic(Axis.pipeline, Operation.SEND, 2, 0, 16, 268_435_456, 16),
            // Attention, norms and the router of a layer, on 8 ranks; two experts, on 2.
            new Traffic(Axis.data, Operation.ALL_REDUCE, 8, 0, 2, 41_984_000, 8),
            new Traffic(Axis.data, Operation.ALL_REDUCE, 2, 0, 8, 352_321_536, 8),
            new Traffic(Axis.data, Operation.ALL_REDUCE, 8, 0, 2, 131_072_000, 1)),
        traffic);
  }

  /** A token's 4096 bytes of fp8 have 32 scales of 4 bytes; ranks that divide tokens send half. */
  @Test
  void tokensAreSmallerInFp8AndFewerWhereRanksDivideThem() {
    List<Traffic> fp8 = Traffic.of(mixtral(false, true), SHARED_EXPERTS);
    assertEquals(128L * 65_536 * 4224, bytes(fp8, Axis.expert, Operation.DISPATCH));
    assertEquals(128L * 65_536 * 8192, bytes(fp8, Axis.expert, Operation.COMBINE));
    List<Traffic> divided = Traffic.of(mixtral(true, false), SHARED_EXPERTS);
    assertEquals(128L * 32_768 * 8192, bytes(divided, Axis.expert, Operation.DISPATCH));
    // Three of attention's and, with two copies of each token, three of the experts'.
    long stream = 268_435_456;
    long gathered = 64 * (3 * stream + 3 * 2 * stream) + 8 * stream;
    assertEquals(gathered, bytes(divided, Axis.tensor, Operation.ALL_GATHER));
  }

  @Test
  void expertsOnEachReplicaAreNotSentTo() {
    Layout whole = new Layout(2, 1, 8, 4, 1, Sharding.ddp);
    List<Traffic> traffic = Traffic.of(mixtral(false, false), whole);
    assertTrue(traffic.stream().noneMatch(each -> each.axis() == Axis.expert), traffic.toString());
    long layer = 41_984_000 + 8L * 176_160_768;
    // Gathered once for all experts, so as without experts.
    List<Traffic> divided = Traffic.of(mixtral(true, false), whole);
    long gathered = (64 * 6 + 8) * 268_435_456L;
    assertEquals(gathered, bytes(divided, Axis.tensor, Operation.ALL_GATHER));
    assertEquals(8 * layer + 131_072_000, bytes(traffic, Axis.data, Operation.ALL_REDUCE));
  }

  /** Without replicas of an expert, its gradients stay where they are. */
  @Test
  void eachExpertOnOneRankIsNotReduced() {
    Layout each = new Layout(2, 1, 8, 4, 8, Sharding.fsdp);
    List<Traffic> traffic = Traffic.of(mixtral(false, false), each);
    long shared = 8 * (8 * 41_984_000L + 131_072_000);
    assertEquals(shared, bytes(traffic, Axis.data, Operation.REDUCE_SCATTER));
    assertEquals(2 * shared, bytes(traffic, Axis.data, Operation.ALL_GATHER));
  }

  /** Every third layer has 4 experts of 512: 2 are routed of a stage's 6 layers. */
  @Test
  void layersWithoutExpertsAreAsBefore() {
    ModelShape model = SMALL.with(new Experts(4, 1, 0, 512, 3, 0));
    long expert = 2L * 1024 * 512;
    long routed = LAYER - 8L * 1024 * 1024 + 4 * 1024;
    assertEquals(8 * LAYER + 4 * (routed + 4 * expert) + 32000L * 1024 + 1024, model.parameters());
    List<Traffic> traffic =
        Traffic.of(job(model, 8, 16, false), new Layout(1, 1, 4, 2, 2, Sharding.ddp));
    long tokens = 2 * 512;
    assertEquals(2 * 2 * 2 * tokens * 2048, bytes(traffic, Axis.expert, Operation.DISPATCH));
    assertEquals(
        2 * (4 * LAYER + 2 * (routed + 2 * expert) + 32000L * 1024),
        bytes(traffic, Axis.data, Operation.ALL_REDUCE));
    List<Layout> layouts =
        Layout.of(job(model, 8, 16, false), List.of(Sharding.ddp), new Layout.Most(1, 2));
    assertTrue(layouts.stream().allMatch(each -> 12 / each.pipeline() % 3 == 0));
    assertTrue(layouts.stream().anyMatch(each -> each.expert() == 2));
    assertTrue(
        layouts.stream()
            .allMatch(each -> each.expert() <= 2 && each.replicas() % each.expert() == 0));
  }

  /** Two of eight experts, whose optimizer's state two ranks divide, and eight that of the rest. */
  @Test
  void memoryHoldsTheExpertsOfARank() {
    MemoryNeed ddp = MemoryNeed.of(mixtral(false, false), SHARED_EXPERTS);
    assertEquals(6_571_032_576.0, ddp.weights(), 1);
    assertEquals(19_713_097_728.0, ddp.optimizer(), 1);
    // 10 + 4 x 2 whole, and 8 + 4 x 2 x 14336 / 4096 halved, in 8 layers of 4 micro-batches.
    assertEquals(36.0 * 8 * 4 * 32_768 * 4096, ddp.activations(), 1);
    Layout zero1 = new Layout(2, 1, 8, 4, 4, Sharding.zero1);
    MemoryNeed zero = MemoryNeed.of(mixtral(false, false), zero1);
    assertEquals(ddp.weights(), zero.weights(), 1);
    assertEquals(8_805_924_864.0, zero.optimizer(), 1);
  }

  /**
   * 4 layers of 256, the first with one network of 1024, the others with 8 experts of 128 and two
   * shared ones. Latent attention of 8 heads: queries of 96 elements, keys and values of 64 and 8.
   */
  private static final ModelShape LATENT =
      new ModelShape("latent", 4, 256, 8, 8, 1024, true, 1000, 64, false)
          .with(new Experts(8, 2, 2, 128, 1, 1))
          .with(new Latent(64, 96, 16, 8, 16));

  /** Queries 96 x (256 + 1 + 8 x 24), keys and values, outputs 128 x 256, and two norms. */
  private static final long LATENT_ATTENTION =
      43_104 + (256 * 72 + 64 + 64 * 8 * 32) + 32_768 + 2 * 256;

  private static final long LATENT_EXPERT = 3 * 256 * 128;
  private static final long LATENT_DENSE = LATENT_ATTENTION + 3 * 256 * 1024;

  /** With the router and two shared experts. */
  private static final long LATENT_ROUTED = LATENT_ATTENTION + 8 * 256 + 2 * LATENT_EXPERT;

  /** 16 GPUs: 2 divide matrices, 4 replicas the experts, in 2 stages of 2 layers. */
  private static final Layout LATENT_LAYOUT = new Layout(2, 1, 4, 2, 4, Sharding.ddp);

  @Test
  void latentAttentionHasThePublishedMatrices() {
    assertEquals(111_264, LATENT_ATTENTION);
    long whole = LATENT_DENSE + 3 * (LATENT_ROUTED + 8 * LATENT_EXPERT) + 2 * 256_000 + 256;
    assertEquals(whole, LATENT.parameters());
    assertEquals(whole - 3 * 6 * LATENT_EXPERT, LATENT.activeParameters());
    // Without a vector for queries, they are computed from the stream: 256 x 8 x 24.
    ModelShape direct = LATENT.with(new Latent(64, 0, 16, 8, 16));
    assertEquals(whole + 4 * (49_152 - 43_104), direct.parameters());
  }

  /** 64 elements of keys and values and 8 of positions, on every tensor-parallel rank. */
  @Test
  void latentAttentionExchangesTheShortVector() {
    for (int tensor : new int[] {1, 2}) {
      Layout layout = new Layout(tensor, 4, 2 / tensor, 1, 1, Sharding.ddp);
      List<Traffic> traffic = Traffic.of(job(LATENT, 8, 8 / tensor, false), layout);
      long vectors = 2L * 64 * 72 * 2;
      assertEquals(2 * 4 * 2 * vectors, bytes(traffic, Axis.context, Operation.ALL_GATHER));
      assertEquals(4 * 2 * vectors, bytes(traffic, Axis.context, Operation.REDUCE_SCATTER));
    }
  }

  /** The last stage has two layers with experts, the first stage one. 2 micro-batches of 128. */
  @Test
  void firstLayersWithoutExpertsAreInTheFirstStage() {
    Job job = job(LATENT, 16, 16, false);
    Traffic tensor = new Traffic(Axis.tensor, Operation.ALL_REDUCE, 2, 0, 1, 65_536, 18);
    Traffic pipeline = new Traffic(Axis.pipeline, Operation.SEND, 2, 0, 8, 65_536, 4);
    Traffic embedding = new Traffic(Axis.data, Operation.ALL_REDUCE, 4, 0, 2, 256_000, 1);
    assertEquals(
        List.of(
            tensor,
            new Traffic(Axis.expert, Operation.DISPATCH, 4, 0, 2, 131_072, 8),
            new Traffic(Axis.expert, Operation.COMBINE, 4, 0, 2, 131_072, 8),
            pipeline,
            new Traffic(Axis.data, Operation.ALL_REDUCE, 4, 0, 2, LATENT_ROUTED, 2),
            embedding),
        Traffic.of(job, LATENT_LAYOUT));
    assertEquals(
        List.of(
            tensor,
            new Traffic(Axis.expert, Operation.DISPATCH, 4, 0, 2, 131_072, 4),
            new Traffic(Axis.expert, Operation.COMBINE, 4, 0, 2, 131_072, 4),
            pipeline,
            new Traffic(Axis.data, Operation.ALL_REDUCE, 4, 0, 2, LATENT_DENSE, 1),
            new Traffic(Axis.data, Operation.ALL_REDUCE, 4, 0, 2, LATENT_ROUTED, 1),
            embedding),
        Traffic.of(job, LATENT_LAYOUT, 0));
  }

  /** Where others get a layer's tokens by a dispatch, shared experts need them gathered apart. */
  @Test
  void sharedExpertsGatherTheirTokensBesideADispatch() {
    List<Traffic> shared = Traffic.of(job(LATENT, 16, 16, true), LATENT_LAYOUT);
    long stream = 65_536;
    // 8 blocks, one end for each of 2 micro-batches; 4 blocks with two copies of each token.
    assertEquals(
        (3 * 8 + 2) * stream + 3 * 4 * 2 * stream,
        bytes(shared, Axis.tensor, Operation.ALL_GATHER));
    assertEquals(
        (2 * 8 + 2) * stream + 2 * 4 * 2 * stream,
        bytes(shared, Axis.tensor, Operation.REDUCE_SCATTER));
    ModelShape none = LATENT.with(new Experts(8, 2, 0, 128, 1, 1));
    List<Traffic> routed = Traffic.of(job(none, 16, 16, true), LATENT_LAYOUT);
    assertEquals(
        (3 * 4 + 2) * stream + 3 * 4 * 2 * stream,
        bytes(routed, Axis.tensor, Operation.ALL_GATHER));
    List<Traffic> again = Traffic.of(recomputing(job(LATENT, 16, 16, true)), LATENT_LAYOUT);
    assertEquals(
        (4 * 8 + 2) * stream + 4 * 4 * 2 * stream, bytes(again, Axis.tensor, Operation.ALL_GATHER));
    // Without a dispatch, both have the tokens that were gathered once.
    Layout whole = new Layout(2, 1, 4, 2, 1, Sharding.ddp);
    assertEquals(
        bytes(Traffic.of(job(none, 16, 16, true), whole), Axis.tensor, Operation.ALL_GATHER),
        bytes(Traffic.of(job(LATENT, 16, 16, true), whole), Axis.tensor, Operation.ALL_GATHER));
  }

  /** Of a token and a unit of width: the short vectors whole, heads and networks halved. */
  @Test
  void memoryHoldsLatentAttentionAndSharedExperts() {
    MemoryNeed first = MemoryNeed.of(job(LATENT, 16, 16, false), LATENT_LAYOUT);
    long parameters = (LATENT_DENSE + LATENT_ROUTED + 256_000 + 2 * LATENT_EXPERT) / 2;
    assertEquals(4 * parameters, first.weights(), 1);
    assertEquals(12 * parameters, first.optimizer(), 1);
    double whole = 10 + 2.0 * (96 + 64 + 8) / 256;
    double heads = 2.0 * 8 * (24 + 24 + 16 + 16) / 256;
    double plain = whole + (heads + 16) / 2;
    double routed = whole + 4 * 2 + (heads + 4 * (2 + 2) * 128.0 / 256) / 2;
    assertEquals(2 * 128 * 256 * (plain + routed), first.activations(), 1);
  }

  /** The second of four stages has experts, and begins almost as many micro-batches. */
  @Test
  void theFullestStageMayFollowTheFirst() {
    ModelShape few = new ModelShape("few", 4, 256, 8, 8, 1024, true, 10, 64, false);
    ModelShape model = few.with(LATENT.experts()).with(LATENT.latent());
    Layout stages = new Layout(1, 1, 1, 4, 1, Sharding.ddp);
    MemoryNeed fullest = MemoryNeed.of(job(model, 4, 16, false), stages);
    assertEquals(4 * (LATENT_ROUTED + 8 * LATENT_EXPERT), fullest.weights(), 1);
  }
}
