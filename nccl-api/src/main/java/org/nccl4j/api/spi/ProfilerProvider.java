package org.nccl4j.api.spi;

import java.util.Optional;

/**
 * Makes profilers; found by {@link java.util.ServiceLoader}. Stateless; any thread may call any
 * method. All that are found are asked, unless NCCL_PROFILER_PLUGIN names one.
 */
public interface ProfilerProvider {
  /**
   * Returns the profiler's name in logs and in NCCL_PROFILER_PLUGIN: at most 32 letters, digits and
   * hyphens.
   */
  String name();

  /**
   * A profiler for one rank of one communicator; empty if it does not want it. Where there is none,
   * operations cost nothing more.
   */
  Optional<Profiler> open(String communicator, int rank, int nRanks);
}
