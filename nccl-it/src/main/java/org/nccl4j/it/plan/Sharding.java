package org.nccl4j.it.plan;

/** Kinds of data parallelism, by what the ranks of a group divide among them. */
enum Sharding {
  /** Nothing: gradients are all-reduced once a step. */
  ddp,
  /** The optimizer's state: gradients are reduce-scattered, weights all-gathered once a step. */
  zero1,
  /**
   * Weights, gradients and the optimizer's state: for each micro-batch, weights are all-gathered
   * twice and gradients reduce-scattered.
   */
  fsdp
}
