package org.nccl4j.it.plan;

import org.nccl4j.device.DataType;

/**
 * The training job that a plan is for.
 *
 * @param model the transformer
 * @param gpus of all machines
 * @param gpusPerMachine of one machine
 * @param batch sequences of a step, over all GPUs
 * @param microBatch sequences that pass a GPU at a time
 * @param type of weights, gradients and activations
 * @param sequenceParallel true if ranks of a tensor-parallel group divide activations by tokens
 *     between the matrices, so that each all-reduce becomes a reduce-scatter and an all-gather
 * @param dispatchFp8 true if tokens travel to their experts as fp8, with a float32 scale for each
 *     block; outputs come back in the type of activations
 * @param recompute true if a layer keeps its input alone for the backward pass
 * @param memoryBytes usable memory of a GPU
 */
record Job(
    ModelShape model,
    int gpus,
    int gpusPerMachine,
    int batch,
    int microBatch,
    DataType type,
    boolean sequenceParallel,
    boolean dispatchFp8,
    boolean recompute,
    double memoryBytes) {

  /** Elements of fp8 that share a scale. */
  private static final int FP8_BLOCK = 128;

  /** Bytes of a token on its way to an expert. */
  long dispatchBytes() {
    long hidden = model.hidden();
    return dispatchFp8
        ? hidden + (hidden + FP8_BLOCK - 1) / FP8_BLOCK * DataType.FLOAT32.bytes()
        : hidden * type.bytes();
  }

  /** Bytes of Adam's state for a parameter: two moments, and a float32 copy of shorter weights. */
  int optimizerBytes() {
    int word = DataType.FLOAT32.bytes();
    return (type.bytes() < word ? 3 : 2) * word;
  }

  /** Micro-batches that a GPU works on in a step, or 0 if the batch cannot be divided so. */
  int microBatches(Layout layout) {
    long each = (long) layout.data() * microBatch;
    return batch % each == 0 ? (int) (batch / each) : 0;
  }
}
