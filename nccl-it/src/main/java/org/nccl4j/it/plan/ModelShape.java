package org.nccl4j.it.plan;

import java.util.List;
import java.util.Optional;

/**
 * The dimensions of a decoder-only transformer.
 *
 * @param name of the model
 * @param layers all with the same attention
 * @param hidden width of the residual stream
 * @param heads query heads, which share the hidden width without latent attention
 * @param kvHeads heads of keys and values
 * @param ffn width between the matrices of the feed-forward network of a layer without experts
 * @param gated true for three matrices in each feed-forward network (SwiGLU), false for two
 * @param vocabulary tokens
 * @param sequence tokens of a training sequence
 * @param tied true if the output matrix is the embedding
 * @param experts of the layers that have them
 * @param latent attention of all layers
 */
record ModelShape(
    String name,
    int layers,
    int hidden,
    int heads,
    int kvHeads,
    int ffn,
    boolean gated,
    int vocabulary,
    int sequence,
    boolean tied,
    Experts experts,
    Latent latent) {

  /** Shapes as their authors published them. */
  static final List<ModelShape> KNOWN =
      List.of(
          new ModelShape("gpt2-xl", 48, 1600, 25, 25, 6400, false, 50257, 1024, true),
          new ModelShape("gpt-7b", 32, 4096, 32, 32, 16384, false, 50257, 2048, true),
          new ModelShape("gpt-13b", 40, 5120, 40, 40, 20480, false, 50257, 2048, true),
          new ModelShape("gpt-175b", 96, 12288, 96, 96, 49152, false, 50257, 2048, true),
          new ModelShape("llama-2-7b", 32, 4096, 32, 32, 11008, true, 32000, 4096, false),
          new ModelShape("llama-2-70b", 80, 8192, 64, 8, 28672, true, 32000, 4096, false),
          new ModelShape("llama-3-8b", 32, 4096, 32, 8, 14336, true, 128256, 8192, false),
          new ModelShape("llama-3-70b", 80, 8192, 64, 8, 28672, true, 128256, 8192, false),
          new ModelShape("llama-3.1-405b", 126, 16384, 128, 8, 53248, true, 128256, 8192, false),
          new ModelShape("mistral-7b", 32, 4096, 32, 8, 14336, true, 32000, 8192, false),
          new ModelShape("mixtral-8x7b", 32, 4096, 32, 8, 14336, true, 32000, 32768, false)
              .with(new Experts(8, 2, 0, 14336, 1, 0)),
          new ModelShape("mixtral-8x22b", 56, 6144, 48, 8, 16384, true, 32000, 65536, false)
              .with(new Experts(8, 2, 0, 16384, 1, 0)),
          new ModelShape("dbrx", 40, 6144, 48, 8, 10752, true, 100352, 32768, false)
              .with(new Experts(16, 4, 0, 10752, 1, 0)),
          new ModelShape("olmoe-1b-7b", 16, 2048, 16, 16, 1024, true, 50304, 4096, false)
              .with(new Experts(64, 8, 0, 1024, 1, 0)),
          new ModelShape("deepseek-v2-lite", 27, 2048, 16, 16, 10944, true, 102400, 4096, false)
              .with(new Experts(64, 6, 2, 1408, 1, 1))
              .with(new Latent(512, 0, 128, 64, 128)),
          new ModelShape("deepseek-v2", 60, 5120, 128, 128, 12288, true, 102400, 4096, false)
              .with(new Experts(160, 6, 2, 1536, 1, 1))
              .with(new Latent(512, 1536, 128, 64, 128)),
          new ModelShape("deepseek-v3", 61, 7168, 128, 128, 18432, true, 129280, 4096, false)
              .with(new Experts(256, 8, 1, 2048, 1, 3))
              .with(new Latent(512, 1536, 128, 64, 128)));

  /** A shape without experts and latent attention. */
  ModelShape(
      String name,
      int layers,
      int hidden,
      int heads,
      int kvHeads,
      int ffn,
      boolean gated,
      int vocabulary,
      int sequence,
      boolean tied) {
    this(
        name,
        layers,
        hidden,
        heads,
        kvHeads,
        ffn,
        gated,
        vocabulary,
        sequence,
        tied,
        Experts.NONE,
        Latent.NONE);
  }

  /** The same shape with experts. */
  ModelShape with(Experts others) {
    return with(others, latent);
  }

  /** The same shape with latent attention. */
  ModelShape with(Latent other) {
    return with(experts, other);
  }

  private ModelShape with(Experts others, Latent other) {
    return new ModelShape(
        name,
        layers,
        hidden,
        heads,
        kvHeads,
        ffn,
        gated,
        vocabulary,
        sequence,
        tied,
        others,
        other);
  }

  /** The known shape of this name; empty if there is none. */
  static Optional<ModelShape> named(String name) {
    return KNOWN.stream().filter(shape -> shape.name.equalsIgnoreCase(name)).findFirst();
  }

  /** The names of all known shapes, as in a sentence. */
  static String names() {
    return String.join(", ", KNOWN.stream().map(ModelShape::name).toList());
  }

  /** True for latent attention. */
  boolean isLatent() {
    return latent.rank() > 0;
  }

  /** Width of all keys together, which is that of all values too; without latent attention. */
  private long keyWidth() {
    return (long) hidden / heads * kvHeads;
  }

  /**
   * Elements of a token that ranks which divide a sequence exchange in a layer: its keys and
   * values, of which a tensor-parallel rank has its part; or the vector that they are computed
   * from, which each has.
   */
  long exchangedWidth(int tensor) {
    return isLatent() ? latent.shared() : 2 * keyWidth() / tensor;
  }

  /**
   * Elements of a token that attention keeps for the backward pass, divided by tensor: queries,
   * keys, values and outputs. Grouped keys count as if each head had its own.
   */
  long keptWidth() {
    return isLatent()
        ? 2L * heads * (latent.plain() + latent.rotary() + latent.value())
        : 4L * hidden;
  }

  /** Elements of a token that attention keeps on every tensor-parallel rank. */
  long keptLatent() {
    return isLatent() ? latent.queryRank() + latent.shared() : 0;
  }

  /** True if there are layers with experts. */
  boolean hasExperts() {
    return experts.number() > 0;
  }

  /** Layers with experts of a stage. */
  int expertLayers(int stage, Stages stages) {
    return experts.layersOf(stages.begin(stage + 1)) - experts.layersOf(stages.begin(stage));
  }

  /** Parameters of a layer without experts: the matrices and two norms; no biases. */
  long layerParameters() {
    return attentionParameters() + matrices() * hidden * ffn;
  }

  /**
   * Parameters of a layer with experts that all tokens use: attention, norms, the router and shared
   * experts.
   */
  long routedParameters() {
    return attentionParameters()
        + (long) hidden * experts.number()
        + experts.shared() * expertParameters();
  }

  /** Parameters of an expert. */
  long expertParameters() {
    return matrices() * hidden * experts.width();
  }

  private long attentionParameters() {
    long matrices =
        isLatent()
            ? latent.parameters(hidden, heads)
            : 2L * hidden * hidden + 2 * hidden * keyWidth();
    return matrices + 2L * hidden;
  }

  private long matrices() {
    return gated ? 3 : 2;
  }

  /** Parameters of the embedding; the output matrix has as many. */
  long embeddingParameters() {
    return (long) vocabulary * hidden;
  }

  /** About all parameters, also of shapes that have more than a long counts. */
  double magnitude() {
    double feedForward = 3.0 * hidden * ffn * layers;
    double routed = 3.0 * hidden * experts.width() * ((double) experts.number() + experts.shared());
    double heads = (double) latent.plain() + latent.rotary() + latent.value();
    double ofLatent = 2.0 * this.heads * heads * (hidden + latent.rank() + latent.queryRank());
    double attention = isLatent() ? ofLatent : 4.0 * hidden * hidden;
    return feedForward
        + routed * experts.layersOf(layers)
        + attention * layers
        + 2.0 * vocabulary * hidden;
  }

  /** All parameters. */
  long parameters() {
    return parameters(experts.number());
  }

  /** Parameters that a token uses: all but those of the experts that are not its own. */
  long activeParameters() {
    return parameters(experts.perToken());
  }

  private long parameters(int expertsOfLayer) {
    int routed = experts.layersOf(layers);
    return (layers - routed) * layerParameters()
        + routed * (routedParameters() + expertsOfLayer * expertParameters())
        + (tied ? 1 : 2) * embeddingParameters()
        + hidden;
  }
}
