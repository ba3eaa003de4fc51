package org.nccl4j.it.top;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.nccl4j.it.top.Frame.CommunicatorRates;
import org.nccl4j.it.top.Frame.LinkRates;
import org.nccl4j.it.top.Frame.RankRates;
import org.nccl4j.it.top.HostSites.Site;
import org.nccl4j.it.top.HostTraffic.LinkTraffic;
import org.nccl4j.topo.LinkType;
import org.nccl4j.topo.NodeType;
import org.nccl4j.topo.path.Routes;
import org.nccl4j.topo.report.HostDrawing;
import org.nccl4j.topo.report.HostDrawing.Box;
import org.nccl4j.topo.report.HostDrawing.Way;
import org.nccl4j.topo.report.Picture;
import org.nccl4j.topo.system.Link;
import org.nccl4j.topo.system.Node;

/**
 * Sums the traffic of a host's ranks over each link of its machine, along the topology's paths.
 * Each rank counts what it sends and receives itself, so a host needs no other host's ranks. For
 * one frame and one thread.
 */
final class HostFlows {
  private static final int MOST_NOTES = 8;

  /** The transport between GPUs that reach each other's memory. */
  private static final String PEER_TO_PEER = "P2P";

  /** The transport of data that an NVSwitch combines or spreads. */
  private static final String SWITCH = "NVLS";

  private final String host;
  private final Optional<Routes> routes;
  private final HostSites sites;
  private final Map<String, double[]> rates = new HashMap<>();
  private final Map<String, List<String>> flows = new HashMap<>();

  /** Cards that the machine does not have, by id. */
  private final Map<String, Box> cards = new TreeMap<>();

  private final Set<Way> ways = new LinkedHashSet<>();
  private final Set<String> notes = new LinkedHashSet<>();

  private HostFlows(String host, Optional<Routes> routes, HostSites sites) {
    this.host = host;
    this.routes = routes;
    this.sites = sites;
  }

  /**
   * The traffic of a host in a frame.
   *
   * @param routes of its machine; empty if that is not known
   */
  static HostTraffic of(String host, Optional<Routes> routes, Frame frame) {
    HostSites sites = new HostSites(routes.map(Routes::machine));
    HostFlows flows = new HostFlows(host, routes, sites);
    flows.eachRank(frame, sites::add);
    flows.eachRank(frame, flows::describeGaps);
    flows.eachRank(frame, flows::add);
    return flows.traffic();
  }

  /**
   * A link that data take.
   *
   * @param link its id
   * @param forward true if they take it in the order of its ends
   */
  private record Step(String link, boolean forward) {
    static Step between(String from, String to) {
      return new Step(Picture.id(from, to), Picture.isForward(from, to));
    }

    static Step between(String from, String to, LinkType type) {
      return new Step(Picture.id(from, to, type), Picture.isForward(from, to));
    }

    Step back() {
      return new Step(link, !forward);
    }
  }

  private interface RankVisitor {
    void visit(CommunicatorRates communicator, RankRates rank);
  }

  private void eachRank(Frame frame, RankVisitor visitor) {
    for (CommunicatorRates communicator : frame.communicators()) {
      for (RankRates rank : communicator.ranks()) {
        if (rank.process().host().equals(host)) {
          visitor.visit(communicator, rank);
        }
      }
    }
  }

  private HostTraffic traffic() {
    Picture picture =
        HostDrawing.of(
            new HostDrawing.Host(
                "host " + host,
                routes.map(Routes::machine),
                sites.texts(),
                sites.boxes(),
                sites.usesMemory(),
                List.copyOf(cards.values()),
                List.copyOf(ways)));
    List<LinkTraffic> links = picture.edges().stream().map(this::traffic).toList();
    List<String> some = new ArrayList<>(notes);
    if (some.size() > MOST_NOTES) {
      int more = some.size() - MOST_NOTES;
      some.subList(MOST_NOTES, some.size()).clear();
      some.add("and %d more of this kind".formatted(more));
    }
    return new HostTraffic(host, picture.svg(), links, List.copyOf(some));
  }

  private LinkTraffic traffic(Picture.Edge edge) {
    double[] rate = rates.getOrDefault(edge.id(), new double[2]);
    return new LinkTraffic(
        edge.id(),
        edge.name(),
        edge.gigabytes(),
        rate[0],
        rate[1],
        flows.getOrDefault(edge.id(), List.of()));
  }

  private void describeGaps(CommunicatorRates communicator, RankRates rank) {
    if (routes.isEmpty()) {
      notes.add(
          "the machine is not known; --machine %s=FILE names its topology file".formatted(host));
    }
    if (HostSites.hasGpu(rank)) {
      notes.add(
          "data that GPUs send each other over NVLink, PCIe and NVLS are estimated from their"
              + " operations");
      if (routes.isPresent() && site(communicator, rank).gpu() == null) {
        notes.add("GPU %s of rank %d is not in the topology".formatted(rank.device(), rank.rank()));
      }
    }
  }

  private Site site(CommunicatorRates communicator, RankRates rank) {
    return sites.find(communicator, rank.rank()).orElseThrow();
  }

  private void add(CommunicatorRates communicator, RankRates rank) {
    for (LinkRates link : rank.links()) {
      if (!link.via().isEmpty()) {
        addNetwork(site(communicator, rank), rank, link);
      } else if (link.gigabytes() > 0 || link.receivedGigabytes() > 0) {
        addWithinHost(communicator, rank, link);
      }
    }
  }

  private void addNetwork(Site site, RankRates rank, LinkRates link) {
    // Cards without traffic are drawn, too.
    List<Step> out = toNetwork(site, link.via());
    if (link.gigabytes() > 0) {
      count(out, link.gigabytes(), sends(rank, link));
    }
    if (link.receivedGigabytes() > 0) {
      String text =
          "rank %d receives %s from rank %d by %s"
              .formatted(rank.rank(), rate(link.receivedGigabytes()), link.peer(), link.way());
      if (link.bytes() > 0 && usesSeveralCards(rank)) {
        notes.add(text + ", the card that it sends by; it may receive by another");
      }
      count(fromNetwork(site, link.via()), link.receivedGigabytes(), text);
    }
  }

  private static boolean usesSeveralCards(RankRates rank) {
    return rank.links().stream()
            .map(LinkRates::via)
            .filter(via -> !via.isEmpty())
            .distinct()
            .count()
        > 1;
  }

  private void addWithinHost(CommunicatorRates communicator, RankRates rank, LinkRates link) {
    Site from = site(communicator, rank);
    Optional<Site> to = sites.find(communicator, link.peer());
    if (from.gpu() != null && to.isPresent() && from.gpu() == to.get().gpu()) {
      return; // ranks on one GPU use no link
    }
    List<Step> way = betweenGpus(from, to, link);
    if (!way.isEmpty()) {
      count(way, link.gigabytes(), sends(rank, link));
      if (link.receivedGigabytes() > 0) {
        count(
            way.stream().map(Step::back).toList(),
            link.receivedGigabytes(),
            "rank %d receives %s by %s"
                .formatted(rank.rank(), rate(link.receivedGigabytes()), link.way()));
      }
    } else if (to.isPresent() && from.usesMemory() && to.get().usesMemory()) {
      count(
          List.of(
              Step.between(from.box(), HostDrawing.MEMORY),
              Step.between(HostDrawing.MEMORY, to.get().box())),
          link.gigabytes(),
          sends(rank, link));
    } else {
      notes.add("the way is not known: " + sends(rank, link));
    }
  }

  /** The way to a GPU, or to the NVSwitch; empty if it is not known. */
  private List<Step> betweenGpus(Site from, Optional<Site> to, LinkRates link) {
    if (from.gpu() == null) {
      return List.of();
    }
    if (link.transport().equals(SWITCH)) {
      return toSwitch(from);
    }
    boolean direct = link.transport().equals(PEER_TO_PEER);
    return direct && to.isPresent() && to.get().gpu() != null
        ? along(from.gpu(), to.get().gpu())
        : List.of();
  }

  private List<Step> toSwitch(Site site) {
    return routes.orElseThrow().machine().nodes().stream()
        .filter(node -> node.toString().equals(site.box()))
        .flatMap(node -> node.links().stream())
        .filter(link -> link.to().type() == NodeType.NVS)
        .map(link -> Step.between(site.box(), link.to().toString(), link.type()))
        .toList();
  }

  private static String sends(RankRates rank, LinkRates link) {
    return "rank %d sends %s to %s by %s"
        .formatted(
            rank.rank(),
            rate(link.gigabytes()),
            link.peer() < 0 ? "other ranks" : "rank " + link.peer(),
            link.way());
  }

  static String rate(double gigabytes) {
    return String.format(Locale.ROOT, "%.3g GB/s", gigabytes);
  }

  private List<Step> toNetwork(Site site, String via) {
    Optional<Node> net = net(via);
    String card = net.map(HostFlows::cardOf).orElseGet(() -> unplacedCard(via));
    List<Step> way = new ArrayList<>();
    if (net.isPresent() && site.gpu() != null) {
      way.addAll(along(site.gpu(), net.get()));
    } else {
      if (site.usesMemory()) {
        way.add(Step.between(site.box(), HostDrawing.MEMORY));
      }
      String from = site.usesMemory() ? HostDrawing.MEMORY : site.box();
      Optional<Node> cpu = site.usesMemory() ? net.flatMap(this::cpuOf) : Optional.empty();
      if (cpu.isPresent()) {
        way.add(Step.between(from, cpu.get().toString()));
        way.addAll(along(cpu.get(), net.get()));
      } else {
        ways.add(new Way(from, card));
        way.add(Step.between(from, card));
      }
    }
    way.add(Step.between(card, HostDrawing.NETWORK));
    return way;
  }

  private List<Step> fromNetwork(Site site, String via) {
    Optional<Node> net = net(via);
    if (net.isPresent() && site.gpu() != null) {
      List<Step> way = new ArrayList<>();
      way.add(Step.between(HostDrawing.NETWORK, cardOf(net.get())));
      way.addAll(along(net.get(), site.gpu()));
      return way;
    }
    List<Step> way = new ArrayList<>(toNetwork(site, via).stream().map(Step::back).toList());
    Collections.reverse(way);
    return way;
  }

  /** The topology's path between boxes: a GPU is in its device's, a network in its card's. */
  private List<Step> along(Node from, Node to) {
    List<Step> way = new ArrayList<>();
    Node at = from;
    for (Link link : routes.orElseThrow().paths().path(from, to).links()) {
      if (isBox(at) && isBox(link.to())) {
        way.add(Step.between(at.toString(), link.to().toString(), link.type()));
      }
      at = link.to();
    }
    return way;
  }

  private static boolean isBox(Node node) {
    return node.type() != NodeType.GPU && node.type() != NodeType.NET;
  }

  private Optional<Node> cpuOf(Node net) {
    return routes.orElseThrow().locality().nearest(net, NodeType.CPU).nodes().stream().findFirst();
  }

  private static String cardOf(Node net) {
    return net.links().get(0).to().toString();
  }

  /** The machine's network of that name, such as "Socket/eth0"; one with a port has its card's. */
  private Optional<Node> net(String via) {
    String device = via.substring(via.indexOf('/') + 1);
    return routes.stream()
        .flatMap(found -> found.machine().nets().stream())
        .filter(
            net ->
                device.equals(net.net().name())
                    || device.equals(net.net().name() + ":" + net.net().port()))
        .findFirst();
  }

  private String unplacedCard(String via) {
    String device = via.substring(via.indexOf('/') + 1);
    String id = "nic/" + device;
    cards.put(id, new Box(id, List.of(device, routes.isEmpty() ? "" : "place not known")));
    if (routes.isPresent()) {
      notes.add("network card %s is not in the topology".formatted(device));
    }
    return id;
  }

  private void count(List<Step> way, double gigabytes, String text) {
    for (Step step : way) {
      rates.computeIfAbsent(step.link, id -> new double[2])[step.forward ? 0 : 1] += gigabytes;
      List<String> known = flows.computeIfAbsent(step.link, id -> new ArrayList<>());
      if (!known.contains(text)) {
        known.add(text);
      }
    }
  }
}
