package org.nccl4j.topo.cluster;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.stream.DoubleStream;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;
import org.nccl4j.topo.LinkType;
import org.nccl4j.topo.PathType;
import org.nccl4j.topo.TopologyException;
import org.nccl4j.topo.connect.CommGraph;
import org.nccl4j.topo.connect.NodeGraphs;
import org.nccl4j.topo.path.Path;
import org.nccl4j.topo.path.PeerRules;
import org.nccl4j.topo.path.Routes;
import org.nccl4j.topo.search.MachineGraphs;
import org.nccl4j.topo.system.Link;
import org.nccl4j.topo.system.Node;
import org.nccl4j.topo.tuning.ChannelTuningModel;
import org.nccl4j.topo.tuning.NcclCostModel;
import org.nccl4j.topo.xml.TopologyXml;
import org.nccl4j.topo.xml.XmlElement;

/**
 * The machines of a real communicator, which may differ, with graphs, rings, trees and costs.
 * Machines that are equal but for names and numbers are searched once. Immutable; safe from any
 * thread.
 */
public final class CommTopology {
  /** Least size at which channels are compared; each next size is this many times larger. */
  private static final long LEAST_SIZE = 64;

  private static final long MOST_SIZE = 1 << 30;

  private final List<NodeGraphs> nodes;
  private final Map<Integer, Place> places;
  private final CommGraph comm;
  private final int askedChannels;
  private final NcclCostModel costs;
  private final ChannelTuningModel tuning;
  private final double neighbourGigabytes;
  private final double leastPairGigabytes;
  private final double mostPairGigabytes;

  /** A machine before it is split into nodes, and its nodes. */
  private record Searched(Routes whole, List<MachineGraphs> domains) {}

  /** Machines that were searched, for communicators with the same options. For one thread. */
  public static final class Searches {
    private final ClusterOptions options;
    private final Map<String, Searched> alone = new HashMap<>();
    private final Map<String, Searched> amongOthers = new HashMap<>();

    /**
     * Nothing was searched yet.
     *
     * @param options settings and the like
     */
    public Searches(ClusterOptions options) {
      this.options = options;
    }

    private Searched of(XmlElement system, boolean several) {
      Map<String, Searched> known = several ? amongOthers : alone;
      String machine = likeness(system);
      Searched found = known.get(machine);
      if (found == null) {
        Routes whole = Cluster.routes(system, options);
        found = new Searched(whole, Cluster.domains(whole, several, options));
        known.put(machine, found);
      }
      return found;
    }
  }

  /**
   * A rank's GPU.
   *
   * @param host the number of its machine
   */
  private record Place(int host, Routes routes, Node gpu) {}

  private CommTopology(List<NodeGraphs> nodes, Map<Integer, Place> places, ClusterOptions options) {
    this.nodes = List.copyOf(nodes);
    this.places = Map.copyOf(places);
    this.comm = CommGraph.connect(this.nodes, options.settings(), options.collNet());
    this.askedChannels = Math.max(options.settings().minChannels(), options.settings().minCtas());
    this.costs = NcclCostModel.of(comm, options.settings());
    this.tuning = ChannelTuningModel.of(comm, options.settings());
    this.neighbourGigabytes = neighbourGigabytes(this.places);
    this.leastPairGigabytes = pairGigabytes(this.places).min().orElse(Double.POSITIVE_INFINITY);
    this.mostPairGigabytes = pairGigabytes(this.places).max().orElse(Double.POSITIVE_INFINITY);
  }

  private static double neighbourGigabytes(Map<Integer, Place> places) {
    Map<Integer, List<Place>> hosts = new HashMap<>();
    places.keySet().stream()
        .sorted()
        .map(places::get)
        .forEach(place -> hosts.computeIfAbsent(place.host, host -> new ArrayList<>()).add(place));
    double least = Double.POSITIVE_INFINITY;
    for (List<Place> host : hosts.values()) {
      for (int at = 0; host.size() > 1 && at < host.size(); at++) {
        Node next = host.get((at + 1) % host.size()).gpu;
        Place place = host.get(at);
        least = Math.min(least, place.routes.paths().path(place.gpu, next).bandwidth());
      }
    }
    return least;
  }

  /**
   * A machine and its ranks.
   *
   * @param system its topology, with ranks from 0 on the GPUs that are used
   * @param ranks the communicator's rank of each of those, ascending
   */
  public record Host(XmlElement system, int[] ranks) {}

  /**
   * Searches and connects machines.
   *
   * @param hosts every machine of the communicator, in any order
   * @param options settings and the like
   * @throws TopologyException if machines cannot be understood or reached, with the remedy
   */
  public static CommTopology of(List<Host> hosts, ClusterOptions options) {
    return of(hosts, new Searches(options));
  }

  /** As {@link #of(List, ClusterOptions)}; machines of earlier calls are not searched again. */
  public static CommTopology of(List<Host> hosts, Searches searches) {
    List<NodeGraphs> nodes = new ArrayList<>();
    Map<Integer, Place> places = new HashMap<>();
    for (int number = 0; number < hosts.size(); number++) {
      Host host = hosts.get(number);
      Searched machine = searches.of(host.system, hosts.size() > 1);
      List<Node> gpus = machine.whole.machine().gpus();
      if (gpus.size() != host.ranks.length) {
        throw host.system.error(
            "has " + gpus.size() + " GPUs with a rank for " + host.ranks.length + " ranks",
            "give the topology of the machine that the ranks run on");
      }
      machine.domains.forEach(domain -> nodes.add(NodeGraphs.of(domain, host.ranks)));
      for (Node gpu : gpus) {
        places.put(host.ranks[gpu.gpu().rank()], new Place(number, machine.whole, gpu));
      }
    }
    return new CommTopology(nodes, places, searches.options);
  }

  /** Equal machines that have been searched, whose ranks are numbered machine after machine. */
  static CommTopology of(
      Routes whole, List<MachineGraphs> domains, int machines, ClusterOptions options) {
    List<NodeGraphs> nodes = new ArrayList<>();
    Map<Integer, Place> places = new HashMap<>();
    List<Node> gpus = whole.machine().gpus();
    for (int machine = 0; machine < machines; machine++) {
      int first = machine * gpus.size();
      for (MachineGraphs domain : domains) {
        nodes.add(NodeGraphs.at(domain, first));
      }
      for (Node gpu : gpus) {
        places.put(first + gpu.gpu().rank(), new Place(machine, whole, gpu));
      }
    }
    return new CommTopology(nodes, places, options);
  }

  /** The text of a machine without what differs between machines that are equal for the search. */
  private static String likeness(XmlElement system) {
    XmlElement copy = system.copy();
    strip(copy, new HashMap<>(), new HashMap<>());
    return TopologyXml.write(copy);
  }

  private static void strip(
      XmlElement element, Map<String, Integer> hosts, Map<String, Integer> cards) {
    element.unset("affinity");
    number(element, "host_hash", hosts);
    number(element, "guid", cards);
    element.children().forEach(child -> strip(child, hosts, cards));
  }

  /** Replaces a name by its number, in order of appearance. */
  private static void number(XmlElement element, String key, Map<String, Integer> names) {
    element
        .text(key)
        .ifPresent(
            name -> {
              names.putIfAbsent(name, names.size());
              element.set(key, names.get(name));
            });
  }

  /** The fewest channels of rings and trees that the settings ask for; 1 where they do not. */
  public int askedChannels() {
    return askedChannels;
  }

  /** Rings, trees and channels over all machines. */
  public CommGraph comm() {
    return comm;
  }

  /**
   * A number that is the same for topologies that give each operation of a size the same costs and
   * channels, and almost surely another for others.
   */
  public int digest() {
    int hash = 31 * comm.nChannels() + (costs.allowsPat() ? 1 : 0);
    hash = 31 * hash + Double.hashCode(neighbourGigabytes);
    hash = 31 * hash + Double.hashCode(leastPairGigabytes);
    hash = 31 * hash + Double.hashCode(mostPairGigabytes);
    for (Operation collective : Operation.collectives()) {
      for (Algorithm algorithm : Algorithm.ofNccl()) {
        for (Protocol protocol : Protocol.values()) {
          hash = 31 * hash + costs.cost(collective, algorithm, protocol).hashCode();
          for (long bytes = LEAST_SIZE; bytes <= MOST_SIZE; bytes *= LEAST_SIZE) {
            hash = 31 * hash + tuning.of(algorithm, protocol, bytes).hashCode();
          }
        }
      }
    }
    return hash;
  }

  /** Returns the cost model of collectives. */
  public NcclCostModel costs() {
    return costs;
  }

  /**
   * Returns GB/s that the NVLinks of the GPU with the fewest carry one way in accesses through the
   * switch's multicast; empty where no switch has it.
   */
  public OptionalDouble multicastGigabytes() {
    if (!comm.nvls()) {
      return OptionalDouble.empty();
    }
    return places.values().stream()
        .mapToDouble(place -> nvlinkGigabytes(place.gpu) * costs.nvlsEfficiency())
        .filter(gigabytes -> gigabytes > 0)
        .min();
  }

  /**
   * Returns GB/s of the narrowest path in rings of a machine's GPUs in the order of their ranks;
   * infinite if no machine has two.
   */
  public double neighbourGigabytes() {
    return neighbourGigabytes;
  }

  /**
   * Returns GB/s of the path between two ranks' GPUs, in the slower direction: the same for both
   * ranks. Infinite over NVLink, and between machines.
   */
  public double pairGigabytes(int rank, int peer) {
    Place here = places.get(rank);
    Place there = places.get(peer);
    return here == null || there == null || here.host != there.host
        ? Double.POSITIVE_INFINITY
        : withoutNvlink(here.routes, here.gpu, there.gpu);
  }

  private static double withoutNvlink(Routes routes, Node gpu, Node peer) {
    Path to = routes.paths().path(gpu, peer);
    Path from = routes.paths().path(peer, gpu);
    return gpu == peer || to.type().within(PathType.NVB) && from.type().within(PathType.NVB)
        ? Double.POSITIVE_INFINITY
        : Math.min(to.bandwidth(), from.bandwidth());
  }

  /** Returns GB/s of the slowest of these paths; infinite if NVLink connects all GPUs. */
  public double leastPairGigabytes() {
    return leastPairGigabytes;
  }

  /** Returns GB/s of the fastest of these paths; infinite if NVLink connects some GPUs. */
  public double mostPairGigabytes() {
    return mostPairGigabytes;
  }

  /** GB/s of the paths between any two GPUs of a machine. */
  private static DoubleStream pairGigabytes(Map<Integer, Place> places) {
    return places.values().stream()
        .map(Place::routes)
        .distinct()
        .flatMapToDouble(
            machine -> {
              List<Node> gpus = machine.machine().gpus();
              return gpus.stream()
                  .flatMapToDouble(
                      gpu ->
                          gpus.stream()
                              .filter(peer -> peer != gpu)
                              .mapToDouble(peer -> withoutNvlink(machine, gpu, peer)));
            });
  }

  /** Returns GB/s that the NVLinks of the GPU with the most carry one way; 0 without NVLink. */
  public double nvlinkGigabytes() {
    return places.values().stream()
        .mapToDouble(place -> nvlinkGigabytes(place.gpu))
        .max()
        .orElse(0);
  }

  private static double nvlinkGigabytes(Node gpu) {
    return gpu.parentDevice().links().stream()
        .filter(link -> link.type() == LinkType.NVL)
        .mapToDouble(Link::bandwidth)
        .sum();
  }

  /** Returns the model that chooses channels and threads. */
  public ChannelTuningModel tuning() {
    return tuning;
  }

  /** Returns the links between two ranks' GPUs; empty if they are on different machines. */
  public Optional<PeerRules.Access> access(int rank, int peer) {
    Place here = places.get(rank);
    Place there = places.get(peer);
    return here == null || there == null || here.host != there.host
        ? Optional.empty()
        : Optional.of(here.routes.peers().access(here.gpu, there.gpu));
  }

  /** Returns the longest path over which the GPUs of a rank's machine exchange data directly. */
  public PathType p2pLevel(int rank) {
    return places.get(rank).routes.peers().level();
  }

  /** The node that a rank is on. */
  public NodeGraphs nodeOf(int rank) {
    for (NodeGraphs node : nodes) {
      for (Node gpu : node.graphs().routes().machine().gpus()) {
        if (node.rank(gpu.gpu().rank()) == rank) {
          return node;
        }
      }
    }
    throw new TopologyException(
        "no node can be found", "rank " + rank, "no machine has it", "ask for an existing rank");
  }
}
