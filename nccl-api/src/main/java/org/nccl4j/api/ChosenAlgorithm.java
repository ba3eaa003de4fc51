package org.nccl4j.api;

/**
 * The algorithm and protocol of an operation.
 *
 * @param algorithm a name such as "Ring" or "TwoShot"; "Pairwise" for operations that consist of
 *     sends
 * @param protocol a name such as "LL" or "Simple"
 */
public record ChosenAlgorithm(String algorithm, String protocol) {}
