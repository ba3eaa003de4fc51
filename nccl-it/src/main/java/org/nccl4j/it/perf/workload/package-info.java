/**
 * The workloads of {@code perf}: buffer sizes, bus bandwidth, calls, and the source of each element
 * of the result.
 *
 * <p>Layer: below {@code perf.rank}; knows the API only, no ranks, reports or command line.
 */
package org.nccl4j.it.perf.workload;
