package org.nccl4j.it.perf.report;

import java.util.List;

/**
 * All results of one command.
 *
 * @param machine where it ran
 * @param version of nccl4j
 * @param command as it was given
 * @param mode "threads" or "processes"
 * @param results in the order in which they were measured
 */
public record Report(
    Machine machine, String version, List<String> command, String mode, List<Result> results) {}
