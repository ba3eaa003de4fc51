package org.nccl4j.topo.report;

import org.nccl4j.topo.cluster.Cluster;
import org.nccl4j.topo.search.MachineGraphs;

/** Explains which GPUs form a node. */
final class ExplainDomains {
  private static final String SECTION = "Nodes";

  private final Sentences sentences;

  ExplainDomains(Sentences sentences) {
    this.sentences = sentences;
  }

  void write(Cluster cluster) {
    int domains = cluster.domains().size();
    for (MachineGraphs domain : cluster.domains()) {
      String who = ReportText.list(domain.routes().machine().gpus());
      sentences.say(
          SECTION,
          who,
          domains == 1
              ? "one node: all reach each other without the network."
              : "a node of its own: the other GPUs of the machine are reached faster over the"
                  + " network. NCCL_NET_DISABLE_INTRA=1 joins them.");
    }
  }
}
