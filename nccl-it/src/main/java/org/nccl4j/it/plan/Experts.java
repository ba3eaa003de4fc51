package org.nccl4j.it.plan;

/**
 * The experts of a transformer's layers: feed-forward networks of which a router chooses some for
 * each token.
 *
 * @param number of a layer; 0 without experts
 * @param perToken experts of a token
 * @param width between the matrices of an expert
 * @param every layers to the next one with experts: 1 if all have them
 */
record Experts(int number, int perToken, int width, int every) {
  /** Of a model whose layers all have one feed-forward network. */
  static final Experts NONE = new Experts(0, 0, 0, 1);
}
