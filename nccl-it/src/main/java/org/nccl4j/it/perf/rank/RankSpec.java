package org.nccl4j.it.perf.rank;

import java.io.Serializable;

/**
 * What a rank must know before its first order.
 *
 * @param rank this one
 * @param nRanks all
 * @param bufferBytes the largest buffer that any order will use
 */
public record RankSpec(int rank, int nRanks, long bufferBytes) implements Serializable {}
