/**
 * What {@code perf} can measure: each workload's buffer sizes, its bus bandwidth, the calls it
 * makes, and where each element of its result comes from.
 *
 * <p>Knows the API and nothing of ranks, reports or the command line.
 */
package org.nccl4j.it.perf.workload;
