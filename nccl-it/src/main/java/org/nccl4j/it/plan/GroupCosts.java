package org.nccl4j.it.plan;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.nccl4j.api.init.costs.ClusterChoices;
import org.nccl4j.api.plan.cost.AlgorithmChoice;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.it.topo.ModelledNetwork;
import org.nccl4j.operation.Operation;
import org.nccl4j.topo.TopologyException;
import org.nccl4j.topo.cluster.Cluster;
import org.nccl4j.topo.cluster.ClusterOptions;
import org.nccl4j.topo.cluster.CommTopology;
import org.nccl4j.topo.connect.AlignedGraph;
import org.nccl4j.topo.path.PeerStatus;
import org.nccl4j.topo.path.Routes;
import org.nccl4j.topo.search.GraphKind;
import org.nccl4j.topo.system.RankOrder;
import org.nccl4j.topo.xml.XmlElement;

/**
 * Times of the calls of groups on equal machines, by nccl4j's planner: what communicators of these
 * GPUs would choose over connections. Groups of equal size and stride are made once, and machines
 * with ranks on the same GPUs are searched once. For one thread.
 */
final class GroupCosts {
  private final XmlElement system;
  private final Settings settings;
  private final ClusterOptions options;

  /** The GPUs' name, for measured times. */
  private final String model;

  private final int gpusPerMachine;
  private final int computeCapability;
  private final CommTopology.Searches searches;
  private final Map<List<Integer>, Group> groups = new HashMap<>();

  /** Machines with ranks on the same GPUs. */
  private final Map<List<Integer>, Machine> machines = new HashMap<>();

  /** A machine with ranks on some of its GPUs alone. */
  private record Machine(XmlElement system, Routes routes) {}

  /**
   * A communicator.
   *
   * @param choices of its planner
   * @param shared how many times the bytes of all groups exceed what a machine's cards carry
   */
  private record Group(CommTopology topology, ClusterChoices choices, double shared) {}

  /**
   * The costs on machines of a file.
   *
   * @param system the machine; is not changed
   * @param settings of the communicators
   * @param model of the GPUs as the driver names it, for measured times; "" for none
   */
  GroupCosts(XmlElement system, Settings settings, String model) {
    this.system = system.copy();
    this.settings = settings;
    this.model = model;
    this.options =
        ClusterChoices.searching(
            new ClusterOptions(settings.topology(), PeerStatus.ALLOWED, false));
    this.searches = new CommTopology.Searches(options);
    List<XmlElement> gpus = RankOrder.apply(this.system);
    this.gpusPerMachine = gpus.size();
    if (gpusPerMachine == 0) {
      throw system.error("has no <gpu>", "give the topology file of a machine with GPUs");
    }
    this.computeCapability = gpus.get(0).intOr("sm", 0);
  }

  /** Returns the number of GPUs of a machine. */
  int gpusPerMachine() {
    return gpusPerMachine;
  }

  /** Returns ten times the compute capability of the first GPU, such as 90; 0 if unknown. */
  int computeCapability() {
    return computeCapability;
  }

  /**
   * The way in which one call is done, with its microseconds.
   *
   * @throws TopologyException if the group spans machines that have no network
   */
  AlgorithmChoice cost(Traffic traffic) {
    Group group = group(traffic.ranks(), traffic.first(), traffic.stride());
    Operation operation = traffic.planned();
    long count = traffic.bytes() / Float.BYTES / operation.wholes(traffic.ranks());
    ClusterChoices.Choice choice = group.choices.choose(operation, Math.max(1, count));
    AlgorithmChoice way = choice.chosen();
    return new AlgorithmChoice(
        way.algorithm(), way.protocol(), group.choices.microseconds(choice, group.shared));
  }

  private Group group(int ranks, int first, int stride) {
    List<Integer> key = List.of(ranks, first, stride);
    Group group = groups.get(key);
    if (group == null) {
      group = search(ranks, first, stride);
      groups.put(key, group);
    }
    return group;
  }

  private Group search(int ranks, int first, int stride) {
    List<CommTopology.Host> hosts = new ArrayList<>();
    List<Routes> routes = new ArrayList<>();
    List<Integer> gpus = new ArrayList<>();
    for (int rank = 0; rank < ranks; rank++) {
      long place = first + (long) rank * stride;
      gpus.add((int) (place % gpusPerMachine));
      boolean last = rank + 1 == ranks;
      if (last || (place + stride) / gpusPerMachine != place / gpusPerMachine) {
        int[] members = new int[gpus.size()];
        int begin = rank + 1 - members.length;
        Arrays.setAll(members, i -> begin + i);
        Machine machine = machines.computeIfAbsent(List.copyOf(gpus), this::only);
        hosts.add(new CommTopology.Host(machine.system, members));
        if (!routes.contains(machine.routes)) {
          routes.add(machine.routes);
        }
        gpus.clear();
      }
    }
    CommTopology topology = CommTopology.of(hosts, searches);
    ClusterChoices choices =
        ClusterChoices.of(
            settings,
            new ClusterChoices.Members(
                topology,
                hosts.stream().map(host -> Arrays.stream(host.ranks()).boxed().toList()).toList(),
                routes,
                /* multicast= */ true),
            model,
            ModelledNetwork.of(settings, ranks));
    return new Group(topology, choices, hosts.size() == 1 ? 1 : shared(topology, stride));
  }

  /**
   * Groups that span machines use the cards of each at the same time. Ranks between two of a group
   * belong to as many other groups.
   */
  private double shared(CommTopology topology, int stride) {
    int groupsOfMachine = Math.min(stride, gpusPerMachine);
    return groupsOfMachine == 1
        ? 1
        : Math.max(1, groupsOfMachine * toNetwork(topology) / toNetwork(whole()));
  }

  /** Two machines with all GPUs. */
  private CommTopology whole() {
    return group(2 * gpusPerMachine, 0, 1).topology;
  }

  /** GB/s that rings carry out of a machine. */
  private static double toNetwork(CommTopology topology) {
    AlignedGraph ring = topology.comm().of(GraphKind.RING);
    return ring.nChannels() * (double) ring.bwInter();
  }

  /** The machine with ranks on some of its GPUs alone. */
  private Machine only(List<Integer> gpus) {
    XmlElement copy = system.copy();
    List<XmlElement> all = RankOrder.apply(copy);
    for (int i = 0; i < all.size(); i++) {
      if (gpus.contains(i)) {
        all.get(i).set("rank", gpus.indexOf(i));
      } else {
        all.get(i).unset("rank");
      }
    }
    return new Machine(copy, Cluster.routes(copy, options));
  }
}
