/**
 * The workloads of {@code perf}: buffer sizes, bus bandwidth, calls, and the source of each element
 * of the result.
 *
 * <p>Depends on the API only, not on ranks, reports or the command line.
 */
package org.nccl4j.it.perf.workload;
