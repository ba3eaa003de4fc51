package org.nccl4j.topo.report;

import org.nccl4j.topo.TopoSettings;
import org.nccl4j.topo.cluster.Cluster;
import org.nccl4j.topo.search.MachineGraphs;

/**
 * Explains a machine in sentences: each names the fact, the rule, and the setting that would change
 * it. Equal sentences about several devices are printed once.
 */
public final class Explanation {
  private Explanation() {}

  /** A cluster explained. */
  public static String of(Cluster cluster, TopoSettings settings) {
    Sentences sentences = new Sentences();
    new ExplainLinks(sentences).write(cluster.whole().machine());
    for (MachineGraphs domain : cluster.domains()) {
      new ExplainPeers(sentences, domain.routes(), settings).write();
      new ExplainNets(sentences, domain.routes(), settings).write();
    }
    new ExplainDomains(sentences).write(cluster);
    new ExplainChannels(sentences, settings).write(cluster);
    new ExplainChoice(sentences).write(cluster.costs());
    return sentences.text();
  }
}
