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

  /** Of the divided ones, those between the matrices of a feed-forward network of 4 widths. */
  private static final double INNER = 16;

  /** Bytes that a layer keeps of a token for each of its experts, whole: input and output. */
  private static final double ROUTED = 4;

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
    int layers = model.layers() / layout.pipeline();
    int routed = model.expertLayers(layers);
    int matrices = first && last && !model.tied() ? 2 : 1;
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
    // The first stage has begun so many micro-batches before the first one comes back.
    int begun = first ? Math.min(job.microBatches(layout), layout.pipeline()) : 1;
    double logits = last ? LOGITS * tokens * model.vocabulary() / layout.tensor() : 0;
    return new MemoryNeed(weights, optimizer, activations(job, layout, tokens, begun) + logits);
  }

  /** Parameters of the experts of a layer that a replica has. */
  private static long experts(ModelShape model, Layout layout) {
    return model.experts().number() / layout.expert() * model.expertParameters();
  }

  /** Parameters of the largest layer or embedding of a replica. */
  private static long largest(ModelShape model, Layout layout) {
    long routed = model.hasExperts() ? model.routedParameters() + experts(model, layout) : 0;
    boolean plain = model.expertLayers(model.layers()) < model.layers();
    long layer = plain ? Math.max(routed, model.layerParameters()) : routed;
    return Math.max(layer, model.embeddingParameters());
  }

  private static double activations(Job job, Layout layout, double tokens, int begun) {
    ModelShape model = job.model();
    double scale = job.type().bytes() / 2.0 * tokens * model.hidden();
    double tensor = layout.tensor();
    double owners = job.sequenceParallel() ? tensor : 1;
    int layers = model.layers() / layout.pipeline();
    int routed = model.expertLayers(layers);
    double plain = WHOLE / owners + DIVIDED / tensor;
    double perToken = model.experts().perToken();
    double inner = INNER * perToken * model.experts().width() / (4.0 * model.hidden());
    double withExperts = (WHOLE + ROUTED * perToken) / owners + (DIVIDED - INNER + inner) / tensor;
    if (job.recompute()) {
      double largest = Math.max(routed < layers ? plain : 0, routed > 0 ? withExperts : 0);
      return scale * (begun * layers * 2 / owners + largest);
    }
    return scale * begun * ((layers - routed) * plain + routed * withExperts);
  }
}
