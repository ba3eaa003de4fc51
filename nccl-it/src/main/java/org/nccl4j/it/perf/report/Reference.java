package org.nccl4j.it.perf.report;

/**
 * What another library took for the same.
 *
 * @param name such as "mpi"
 * @param version of the library
 * @param timeUs microseconds an operation
 */
public record Reference(String name, String version, double timeUs) {}
