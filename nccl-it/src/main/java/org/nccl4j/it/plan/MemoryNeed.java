package org.nccl4j.it.plan;

import java.util.Comparator;
import java.util.stream.IntStream;

/**
 * The memory that a layout needs on its fullest GPU, in bytes.
 *
 * @param weights with gradients
 * @param optimizer Adam's state
 * @param activations kept for the backward pass, with the logits
 */
record MemoryNeed(double weights, double optimizer, double activations) {
  /** Bytes that a layer keeps of a token for each unit of width, whole. */
  private static final double WHOLE = 10;

  /** The same between the matrices of a feed-forward network of 4 widths, divided by tensor. */
  private static final double INNER = 16;

  /** Bytes that a layer keeps of a token for each of its experts, whole: input and output. */
  private static final double ROUTED = 4;

  /** Bytes that the logits and their gradient have in float32 and in the model's type. */
  private static final double LOGITS = 8;

  /** All together. */
  double bytes() {
    return weights + optimizer + activations;
  }

  /** The need of the fullest stage. */
  static MemoryNeed of(Job job, Layout layout) {
    return IntStream.range(0, layout.pipeline())
        .mapToObj(stage -> of(job, layout, stage))
        .max(Comparator.comparingDouble(MemoryNeed::bytes))
        .orElseThrow();
  }

  private static MemoryNeed of(Job job, Layout layout, int stage) {
    ModelShape model = job.model();
    boolean first = stage == 0;
    boolean last = stage == layout.pipeline() - 1;
    int layers = layout.stages(model).of(stage);
    int routed = model.expertLayers(stage, layout.stages(model));
    int matrices = first && last && !model.tied() ? 2 : first || last ? 1 : 0;
    double shared =
        ((double) (layers - routed) * model.layerParameters()
                + (double) routed * model.routedParameters()
                + (double) matrices * model.embeddingParameters())
            / layout.tensor();
    double experts = (double) routed * experts(model, layout) / layout.tensor();
    double whole = shared + experts;
    double divided = shared / layout.replicas() + experts / layout.expertReplicas();
    double gathered = 2.0 * largest(model, layout) / layout.tensor();
    double weights =
        job.type().bytes()
            * (layout.sharding() == Sharding.fsdp ? 2 * divided + gathered : 2 * whole);
    double optimizer = job.optimizerBytes() * (layout.sharding() == Sharding.ddp ? whole : divided);
    double tokens = (double) job.microBatch() * model.sequence() / layout.context();
    // A stage has begun so many micro-batches before the first one comes back to it.
    int begun = Math.min(job.microBatches(layout), layout.pipeline() - stage);
    double logits = last ? LOGITS * tokens * model.vocabulary() / layout.tensor() : 0;
    return new MemoryNeed(
        weights, optimizer, activations(job, layout, tokens, begun, layers, routed) + logits);
  }

  /** Parameters of the experts of a layer that a replica has. */
  private static long experts(ModelShape model, Layout layout) {
    return model.experts().number() / layout.expert() * model.expertParameters();
  }

  /** Parameters of the largest layer or embedding of a replica. */
  private static long largest(ModelShape model, Layout layout) {
    long routed = model.hasExperts() ? model.routedParameters() + experts(model, layout) : 0;
    boolean plain = model.experts().layersOf(model.layers()) < model.layers();
    long layer = plain ? Math.max(routed, model.layerParameters()) : routed;
    return Math.max(layer, model.embeddingParameters());
  }

  /**
   * Activations of a stage.
   *
   * @param begun micro-batches
   * @param layers of the stage
   * @param routed of these, with experts
   */
  private static double activations(
      Job job, Layout layout, double tokens, int begun, int layers, int routed) {
    ModelShape model = job.model();
    double scale = job.type().bytes() / 2.0 * tokens * model.hidden();
    double tensor = layout.tensor();
    double owners = job.sequenceParallel() ? tensor : 1;
    double hidden = model.hidden();
    double attention = 2 * model.keptWidth() / hidden;
    double whole = WHOLE + 2 * model.keptLatent() / hidden;
    double plain = whole / owners + (attention + INNER) / tensor;
    double perToken = model.experts().perToken();
    double computing = perToken + model.experts().shared();
    double inner = INNER * computing * model.experts().width() / (4 * hidden);
    double withExperts = (whole + ROUTED * perToken) / owners + (attention + inner) / tensor;
    if (job.recompute()) {
      double largest = Math.max(routed < layers ? plain : 0, routed > 0 ? withExperts : 0);
      return scale * (begun * layers * 2 / owners + largest);
    }
    return scale * begun * ((layers - routed) * plain + routed * withExperts);
  }
}
