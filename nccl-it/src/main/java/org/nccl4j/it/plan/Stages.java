package org.nccl4j.it.plan;

/**
 * The layers of a pipeline's stages. Where they cannot be equal, some have one more: the last ones
 * but the very last, which has the output matrix too, since an early stage keeps the activations of
 * more micro-batches.
 *
 * @param layers of all stages
 * @param number of stages, at most as many
 */
record Stages(int layers, int number) {
  /** The first layer of a stage; of the number of stages, all layers. */
  int begin(int stage) {
    int more = layers % number;
    return stage * (layers / number) + Math.max(0, Math.min(stage - (number - 1 - more), more));
  }

  /** Layers of a stage. */
  int of(int stage) {
    return begin(stage + 1) - begin(stage);
  }

  /** The fewest layers of a stage. */
  int least() {
    return layers / number;
  }

  /** The most layers of a stage. */
  int most() {
    return (layers + number - 1) / number;
  }

  /** True if all have the same number of layers. */
  boolean areEqual() {
    return least() == most();
  }

  /** The number of layers, or the least and the most. */
  @Override
  public String toString() {
    return areEqual() ? Integer.toString(most()) : least() + "-" + most();
  }
}
