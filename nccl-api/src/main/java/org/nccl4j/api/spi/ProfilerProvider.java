package org.nccl4j.api.spi;

import java.util.Optional;

/**
 * Creates profilers; found by {@link java.util.ServiceLoader}. Stateless; any thread may call any
 * method. All providers that are found are used, unless NCCL_PROFILER_PLUGIN names one.
 */
public interface ProfilerProvider {
  /**
   * Returns the profiler's name in logs and in NCCL_PROFILER_PLUGIN: at most 32 letters, digits and
   * hyphens.
   */
  String name();

  /**
   * Creates a profiler for one rank of one communicator; empty to leave this communicator out.
   * Without a profiler, operations have no additional cost.
   */
  Optional<Profiler> open(String communicator, int rank, int nRanks);
}
