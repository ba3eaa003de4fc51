package org.nccl4j.it.perf.rank;

import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;

/** Creates a rank's communicator. */
@FunctionalInterface
interface CommunicatorSource {
  /**
   * Joins; returns once all ranks have.
   *
   * @param spec who joins
   * @param uniqueId the id's text; empty if the ranks need none
   */
  Communicator join(RankSpec spec, String uniqueId, CommunicatorConfig config);

  /**
   * The same where each rank's thread is bound to a core, if it could be: it introduces itself, so
   * that the communicator knows each rank's core.
   */
  default Communicator joinBound(RankSpec spec, String uniqueId, CommunicatorConfig config) {
    return join(spec, uniqueId, config);
  }
}
