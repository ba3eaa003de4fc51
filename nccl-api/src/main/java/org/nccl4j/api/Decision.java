package org.nccl4j.api;

/**
 * How an operation is done.
 *
 * @param algorithm such as "Ring" or "TwoShot"; "Pairwise" for operations made of sends
 * @param protocol such as "LL" or "Simple"
 */
public record Decision(String algorithm, String protocol) {}
