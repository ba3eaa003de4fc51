package org.nccl4j.it.plan;

import java.util.List;
import java.util.Optional;

/**
 * The dimensions of a decoder-only transformer.
 *
 * @param name of the model
 * @param layers all of equal size
 * @param hidden width of the residual stream
 * @param heads query heads, which share the hidden width
 * @param kvHeads heads of keys and values
 * @param ffn width between the matrices of the feed-forward network
 * @param gated true for three matrices in the feed-forward network (SwiGLU), false for two
 * @param vocabulary tokens
 * @param sequence tokens of a training sequence
 * @param tied true if the output matrix is the embedding
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
    boolean tied) {

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
          new ModelShape("mistral-7b", 32, 4096, 32, 8, 14336, true, 32000, 8192, false));

  /** The known shape of this name; empty if there is none. */
  static Optional<ModelShape> named(String name) {
    return KNOWN.stream().filter(shape -> shape.name.equalsIgnoreCase(name)).findFirst();
  }

  /** The names of all known shapes, as in a sentence. */
  static String names() {
    return String.join(", ", KNOWN.stream().map(ModelShape::name).toList());
  }

  /** Width of all keys together, which is that of all values too. */
  long keyWidth() {
    return (long) hidden / heads * kvHeads;
  }

  /** Parameters of a layer: the matrices and two norms; no biases. */
  long layerParameters() {
    long attention = 2L * hidden * hidden + 2 * hidden * keyWidth();
    return attention + (gated ? 3L : 2L) * hidden * ffn + 2L * hidden;
  }

  /** Parameters of the embedding; the output matrix has as many. */
  long embeddingParameters() {
    return (long) vocabulary * hidden;
  }

  /** All parameters. */
  long parameters() {
    return layers * layerParameters() + (tied ? 1 : 2) * embeddingParameters() + hidden;
  }
}
