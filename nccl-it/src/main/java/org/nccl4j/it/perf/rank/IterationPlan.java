package org.nccl4j.it.perf.rank;

import java.io.Serializable;

/**
 * The number of runs of an operation, and their grouping.
 *
 * @param warmup operations before the clock starts
 * @param iterations timed, each of {@code aggregate} operations
 * @param aggregate operations in one group
 * @param blocking whether to wait for each iteration and for the other ranks
 * @param graph iterations in one CUDA graph, of which {@code iterations} is a multiple; 0 for none
 */
public record IterationPlan(int warmup, int iterations, int aggregate, boolean blocking, int graph)
    implements Serializable {}
