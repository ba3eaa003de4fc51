package org.nccl4j.it.plan;

/**
 * The experts of a transformer's layers: feed-forward networks of which a router chooses some for
 * each token.
 *
 * @param number of a layer, of which the router chooses; 0 without experts
 * @param perToken experts that the router chooses for a token
 * @param shared experts of a layer that compute every token
 * @param width between the matrices of an expert
 * @param every layers to the next one with experts: 1 if all have them
 * @param dense first layers of the model, which have no experts
 */
record Experts(int number, int perToken, int shared, int width, int every, int dense) {
  /** Of a model whose layers all have one feed-forward network. */
  static final Experts NONE = new Experts(0, 0, 0, 0, 1, 0);

  /** Layers with experts among the first ones of a model. */
  int layersOf(int first) {
    return number > 0 ? Math.max(0, first / every - dense / every) : 0;
  }
}
