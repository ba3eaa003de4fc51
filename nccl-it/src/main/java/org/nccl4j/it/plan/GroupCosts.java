package org.nccl4j.it.plan;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.nccl4j.api.plan.algorithm.ChannelBandwidth;
import org.nccl4j.api.spi.SettingValues;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;
import org.nccl4j.topo.TopologyException;
import org.nccl4j.topo.cluster.ClusterOptions;
import org.nccl4j.topo.cluster.CommTopology;
import org.nccl4j.topo.connect.AlignedGraph;
import org.nccl4j.topo.search.GraphKind;
import org.nccl4j.topo.system.RankOrder;
import org.nccl4j.topo.tuning.NcclCostModel;
import org.nccl4j.topo.tuning.Selection;
import org.nccl4j.topo.xml.XmlElement;
import org.nccl4j.transport.net.NetChannelCount;

/**
 * Times of collectives of groups of equal machines, by the topology's search and cost model, and
 * the channels that a group's ranks would have. Groups of equal size and stride are made once, and
 * machines with ranks on the same GPUs are searched once. For one thread.
 */
final class GroupCosts {
  private final XmlElement system;
  private final SettingValues settings;
  private final int gpusPerMachine;
  private final int computeCapability;
  private final CommTopology.Searches searches;
  private final Map<List<Integer>, Group> groups = new HashMap<>();

  /**
   * A searched communicator.
   *
   * @param slowdown how many times the bytes of all groups exceed what a machine's cards carry
   * @param crossing how many times the bytes that leave a machine in an all-to-all exceed those in
   *     a ring
   * @param channels between machines; empty on one machine
   */
  private record Group(
      CommTopology topology,
      double slowdown,
      double crossing,
      Optional<ChannelBandwidth> channels) {
    /** GB/s of the bytes of all groups that the channels of a rank let through. */
    double most(Operation operation, Algorithm algorithm) {
      return slowdown
          * channels
              .map(
                  known ->
                      algorithm == Algorithm.NVLS_TREE
                          ? known.ofHeads(Math.max(1, topology.comm().nvlsHeads().size()))
                          : known.most(operation, algorithm))
              .orElse(Double.POSITIVE_INFINITY);
    }
  }

  /**
   * The costs on machines of a file.
   *
   * @param system the machine; is not changed
   * @param settings of the channels between machines
   */
  GroupCosts(XmlElement system, ClusterOptions options, SettingValues settings) {
    this.system = system.copy();
    this.settings = settings;
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
   * The way one call is done and its microseconds.
   *
   * @throws TopologyException if the group spans machines that have no network
   */
  Selection cost(Traffic traffic) {
    Group group = group(traffic.ranks(), traffic.first(), traffic.stride());
    if (traffic.operation() == Operation.DISPATCH || traffic.operation() == Operation.COMBINE) {
      return exchange(group, traffic);
    }
    // Of two ranks, a broadcast is a send.
    Operation modelled =
        traffic.operation() == Operation.SEND ? Operation.BROADCAST : traffic.operation();
    long bytes = Math.round(traffic.bytes() * group.slowdown);
    Optional<Selection> best =
        group
            .topology
            .costs()
            .select(modelled, bytes, algorithm -> group.most(modelled, algorithm));
    return best.orElseThrow(() -> forbidden(traffic));
  }

  /**
   * An all-to-all by sends. It costs what a ring's all-gather does, which has as many steps, and
   * takes as many bytes over each GPU's links; out of a machine an all-to-all takes more. A rank
   * sends to all others at once, so the channels of all these connections carry its bytes.
   */
  private static Selection exchange(Group group, Traffic traffic) {
    NcclCostModel costs = group.topology.costs();
    double scale = group.crossing * group.slowdown;
    float most =
        (float)
            (scale
                * group
                    .channels
                    .map(known -> known.ofMessages(traffic.ranks() - 1))
                    .orElse(Double.POSITIVE_INFINITY));
    long bytes = Math.round(traffic.bytes() * scale);
    Selection best = null;
    for (Protocol protocol : Protocol.values()) {
      float time = costs.time(Operation.ALL_GATHER, Algorithm.RING, protocol, bytes, most);
      if (time >= 0 && (best == null || time < best.micros())) {
        best = new Selection(Algorithm.PAIRWISE, protocol, time);
      }
    }
    if (best == null) {
      throw forbidden(traffic);
    }
    return best;
  }

  private static TopologyException forbidden(Traffic traffic) {
    return new TopologyException(
        "no time can be predicted",
        traffic.operation().label() + " of " + traffic.ranks() + " GPUs",
        "the settings forbid every algorithm that the model has",
        "unset NCCL_ALGO and NCCL_PROTO");
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
    Map<List<Integer>, XmlElement> machines = new HashMap<>();
    List<Integer> gpus = new ArrayList<>();
    for (int rank = 0; rank < ranks; rank++) {
      long place = first + (long) rank * stride;
      gpus.add((int) (place % gpusPerMachine));
      boolean last = rank + 1 == ranks;
      if (last || (place + stride) / gpusPerMachine != place / gpusPerMachine) {
        int[] members = new int[gpus.size()];
        int begin = rank + 1 - members.length;
        Arrays.setAll(members, i -> begin + i);
        XmlElement machine = machines.computeIfAbsent(List.copyOf(gpus), this::only);
        hosts.add(new CommTopology.Host(machine, members));
        gpus.clear();
      }
    }
    CommTopology topology = CommTopology.of(hosts, searches);
    return hosts.size() == 1
        ? new Group(topology, 1, 1, Optional.empty())
        : new Group(
            topology,
            slowdown(topology, stride),
            crossing(hosts, ranks),
            Optional.of(channels(topology, hosts.size(), ranks)));
  }

  /** The channels that a communicator of so many ranks on machines would have. */
  private ChannelBandwidth channels(CommTopology topology, int machines, int ranks) {
    int cards = ChannelBandwidth.channels(topology);
    return new ChannelBandwidth(
        ranks,
        machines,
        NetChannelCount.ofNeighbours(settings, cards),
        NetChannelCount.ofPairs(settings, ranks, cards));
  }

  /**
   * Of a rank's bytes, a ring takes all parts but one out of a machine. An all-to-all takes, for
   * each rank there, the parts of all ranks elsewhere.
   */
  private static double crossing(List<CommTopology.Host> hosts, int ranks) {
    return hosts.stream()
        .mapToDouble(
            host -> host.ranks().length * (double) (ranks - host.ranks().length) / (ranks - 1))
        .max()
        .orElse(1);
  }

  /**
   * Groups that span machines use the cards of each at the same time. Ranks between two of a group
   * belong to as many other groups.
   */
  private double slowdown(CommTopology topology, int stride) {
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
  private XmlElement only(List<Integer> gpus) {
    XmlElement copy = system.copy();
    List<XmlElement> all = RankOrder.apply(copy);
    for (int i = 0; i < all.size(); i++) {
      if (gpus.contains(i)) {
        all.get(i).set("rank", gpus.indexOf(i));
      } else {
        all.get(i).unset("rank");
      }
    }
    return copy;
  }
}
