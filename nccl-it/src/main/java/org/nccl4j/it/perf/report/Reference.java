package org.nccl4j.it.perf.report;

/**
 * Another library's time for the same operation.
 *
 * @param name such as "mpi"
 * @param version of the library
 * @param timeUs microseconds an operation
 */
public record Reference(String name, String version, double timeUs) {}
