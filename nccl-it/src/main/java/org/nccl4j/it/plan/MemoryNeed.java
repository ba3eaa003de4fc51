package org.nccl4j.it.plan;

/**
 * The memory that a layout needs on its fullest GPU, in bytes.
 *
 * @param weights with gradients
 * @param optimizer Adam's state
 * @param activations kept for the backward pass, with the logits
 */
record MemoryNeed(double weights, double optimizer, double activations) {
  /** Bytes that a layer keeps of a token for each unit of width: whole, and divided by tensor. */
  private static final double WHOLE = 10;

  private static final double DIVIDED = 24;

  /** Bytes that the logits and their gradient have in float32 and in the model's type. */
  private static final double LOGITS = 8;

  /** All together. */
  double bytes() {
    return weights + optimizer + activations;
  }

  /** The need of the first or the last stage, whichever is larger. */
  static MemoryNeed of(Job job, Layout layout) {
    MemoryNeed first = of(job, layout, true, layout.pipeline() == 1);
    MemoryNeed last = of(job, layout, layout.pipeline() == 1, true);
    return first.bytes() > last.bytes() ? first : last;
  }

  private static MemoryNeed of(Job job, Layout layout, boolean first, boolean last) {
    ModelShape model = job.model();
    double layers = (double) model.layers() / layout.pipeline();
    int matrices = first && last && !model.tied() ? 2 : 1;
    double parameters =
        (layers * model.layerParameters() + matrices * model.embeddingParameters())
            / layout.tensor();
    double divided = layout.replicas();
    double resident = layout.sharding() == Sharding.fsdp ? parameters / divided : parameters;
    double gathered =
        layout.sharding() == Sharding.fsdp
            ? 2.0 * Math.max(model.layerParameters(), model.embeddingParameters()) / layout.tensor()
            : 0;
    double weights = job.type().bytes() * (2 * resident + gathered);
    double optimizer =
        job.optimizerBytes()
            * (layout.sharding() == Sharding.ddp ? parameters : parameters / divided);
    double tokens = (double) job.microBatch() * model.sequence() / layout.context();
    // The first stage has begun so many micro-batches before the first one comes back.
    int begun = first ? Math.min(job.microBatches(layout), layout.pipeline()) : 1;
    double logits = last ? LOGITS * tokens * model.vocabulary() / layout.tensor() : 0;
    return new MemoryNeed(
        weights, optimizer, activations(job, layout, tokens, layers, begun) + logits);
  }

  private static double activations(
      Job job, Layout layout, double tokens, double layers, int begun) {
    double scale = job.type().bytes() / 2.0 * tokens * job.model().hidden();
    double whole = job.sequenceParallel() ? WHOLE / layout.tensor() : WHOLE;
    double layer = scale * (whole + DIVIDED / layout.tensor());
    double input = scale * 2 / (job.sequenceParallel() ? layout.tensor() : 1);
    return job.recompute() ? begun * layers * input + layer : begun * layers * layer;
  }
}
