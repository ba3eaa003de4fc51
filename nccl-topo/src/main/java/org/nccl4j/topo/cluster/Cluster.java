package org.nccl4j.topo.cluster;

import java.util.ArrayList;
import java.util.List;
import org.nccl4j.topo.TopologyException;
import org.nccl4j.topo.connect.CommGraph;
import org.nccl4j.topo.path.Routes;
import org.nccl4j.topo.search.MachineGraphs;
import org.nccl4j.topo.system.Assumptions;
import org.nccl4j.topo.system.Machine;
import org.nccl4j.topo.system.MachineBuilder;
import org.nccl4j.topo.system.Node;
import org.nccl4j.topo.system.RankOrder;
import org.nccl4j.topo.tuning.NcclCostModel;
import org.nccl4j.topo.xml.XmlElement;
import org.nccl4j.topo.xml.XmlPruning;

/**
 * A number of equal machines with a rank on every GPU, with graphs, rings, trees and costs.
 * Immutable; safe from any thread.
 */
public final class Cluster {
  /** More than the largest jobs have; their rings and trees fit into some GiB. */
  private static final int MOST_RANKS = 1 << 17;

  private final Routes whole;
  private final List<MachineGraphs> domains;
  private final int machines;
  private final CommTopology topology;

  private Cluster(Routes whole, List<MachineGraphs> domains, int machines, ClusterOptions options) {
    this.whole = whole;
    this.domains = List.copyOf(domains);
    this.machines = machines;
    this.topology = CommTopology.of(whole, domains, machines, options);
  }

  /**
   * The routes of the machine that a file describes, before it is split into domains.
   *
   * @throws TopologyException if it has no GPU with a rank
   */
  public static Routes routes(XmlElement system, ClusterOptions options) {
    Machine machine = machine(system, options);
    if (machine.gpus().isEmpty()) {
      throw system.error(
          "has no <gpu> with a rank", "add a <gpu> with dev, sm and rank to a <pci>");
    }
    return Routes.of(machine, options.settings(), options.driver());
  }

  /**
   * The routes of a machine that may have no GPU.
   *
   * @throws TopologyException if it has neither a GPU nor a network
   */
  public static Routes routesOfHost(XmlElement system, ClusterOptions options) {
    Machine machine = machine(system, options);
    if (machine.cpus().isEmpty()) {
      throw system.error("has neither a GPU nor a network", "add a <cpu> with a <net>");
    }
    return Routes.of(machine, options.settings(), options.driver());
  }

  private static Machine machine(XmlElement system, ClusterOptions options) {
    XmlElement copy = system.copy();
    XmlPruning.prune(copy);
    RankOrder.apply(copy);
    XmlPruning.pruneUnranked(copy);
    Assumptions assumptions = new Assumptions(true, options.collNet());
    return MachineBuilder.build(copy, options.settings(), assumptions);
  }

  /**
   * A cluster.
   *
   * @param system the top element of a topology file
   * @param machines how many machines like it
   * @param options settings and the like
   */
  public static Cluster of(XmlElement system, int machines, ClusterOptions options) {
    return of(routes(system, options), machines, options);
  }

  /** A cluster of machines whose routes are known. */
  public static Cluster of(Routes whole, int machines, ClusterOptions options) {
    int perMachine = whole.machine().gpus().size();
    int most = MOST_RANKS / Math.max(1, perMachine);
    if (machines < 1 || machines > most) {
      throw new TopologyException(
          "no cluster can be made",
          machines + " machines of " + perMachine + " GPUs",
          "a cluster has 1 to " + MOST_RANKS + " ranks",
          "ask for 1 to " + most + " machines");
    }
    return new Cluster(whole, domains(whole, machines > 1, options), machines, options);
  }

  /** The graphs of the parts of a machine that stay together, alone or among others. */
  static List<MachineGraphs> domains(Routes whole, boolean several, ClusterOptions options) {
    List<List<Node>> groups = whole.domains();
    boolean needsNet = several || groups.size() > 1;
    if (needsNet && whole.machine().nets().isEmpty()) {
      throw new TopologyException(
          "no cluster can be made",
          whole.machine().gpus().get(0).toString(),
          several
              ? "there are several machines, and this one has no network"
              : "some GPUs reach each other only over a network, and this machine has no network",
          "add a <net> to the topology file, or use one machine with NCCL_SHM_DISABLE=0");
    }
    List<MachineGraphs> domains = new ArrayList<>();
    for (List<Node> gpus : groups) {
      Routes routes = Routes.trimmed(whole, gpus, options.settings(), options.driver());
      domains.add(MachineGraphs.search(routes, options.settings(), needsNet, options.collNet()));
    }
    return domains;
  }

  /** The machine as a whole. */
  public Routes whole() {
    return whole;
  }

  /** The parts of one machine whose GPUs stay together, by lowest rank. */
  public List<MachineGraphs> domains() {
    return domains;
  }

  /** Returns the number of machines. */
  public int machines() {
    return machines;
  }

  /** The topology of a communicator with a rank on every GPU. */
  public CommTopology topology() {
    return topology;
  }

  /** Rings, trees and channels over all machines. */
  public CommGraph comm() {
    return topology.comm();
  }

  /** Returns the cost model of collectives. */
  public NcclCostModel costs() {
    return topology.costs();
  }
}
