package org.nccl4j.api.init.connect;

import java.lang.System.Logger;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.nccl4j.api.bootstrap.Bootstrap;
import org.nccl4j.api.settings.InfoLog;
import org.nccl4j.api.settings.Subsystems;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.Support;
import org.nccl4j.api.spi.Transport;
import org.nccl4j.api.spi.TransportProvider;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.TimeoutException;

/**
 * The transport to each rank. Both ends of a pair ask all their transports; the pair takes the
 * first in the order of its lower rank that both can use.
 */
public final class Routes {
  private static final Logger LOG = DebugLog.of("INIT");

  private final int rank;
  private final List<PeerInfo> peers;
  private final List<NamedTransport> transports;
  private final String networks;
  private final Logger.Level level;
  private final StringBuilder table = new StringBuilder();

  /** Reasons that transports gave for each rank, by transport name. */
  private final Map<Integer, Map<String, String>> said = new TreeMap<>();

  /** Why a transport must not be used with a rank, by rank and its name. */
  private final Map<Integer, Map<String, String>> excluded = new TreeMap<>();

  /**
   * A rank's routes.
   *
   * @param transports its own, best first
   * @param networks what each network said of its use on this rank, a line for each
   * @param level at which the table of what was found and chosen is logged
   */
  public Routes(
      int rank,
      List<PeerInfo> peers,
      List<NamedTransport> transports,
      String networks,
      Logger.Level level) {
    this.rank = rank;
    this.peers = peers;
    this.transports = transports;
    this.networks = networks;
    this.level = level;
  }

  /** A transport and its provider. */
  public record NamedTransport(TransportProvider provider, Transport transport) {
    public String name() {
      return provider.name();
    }
  }

  /** Never again uses a transport with a rank; to be called on both of them. */
  void exclude(int peer, String name, String reason) {
    excluded.computeIfAbsent(peer, none -> new TreeMap<>()).put(name, reason);
  }

  /**
   * The transport to each rank; null at this one.
   *
   * @throws InvalidUsageException if a rank cannot be reached, with what every transport said
   */
  List<NamedTransport> choose(Bootstrap bootstrap) {
    table.setLength(0);
    List<String> offers = new ArrayList<>();
    long endNanos = bootstrap.exchangeEnd();
    for (PeerInfo peer : peers) {
      offers.add(peer.rank() == rank ? "" : offer(peer, endNanos));
    }
    List<byte[]> all = bootstrap.allGather(String.join("\n", offers).getBytes(UTF_8));
    List<NamedTransport> chosen = new ArrayList<>();
    for (PeerInfo peer : peers) {
      chosen.add(
          peer.rank() == rank
              ? null
              : agree(peer.rank(), offers.get(peer.rank()), offerOf(all, peer.rank())));
    }
    LOG.log(level, "rank {0}: transports{1}", rank, table);
    return chosen;
  }

  private static final Charset UTF_8 = StandardCharsets.UTF_8;

  /**
   * Transport that reaches a rank, and its reason.
   *
   * @param name of the transport
   * @param reason what it said when it was asked
   */
  public record Route(String name, String reason) {}

  /** The names of transports by rank. */
  public static Map<Integer, String> names(Map<Integer, Route> routes) {
    Map<Integer, String> names = new TreeMap<>();
    routes.forEach((peer, route) -> names.put(peer, route.name));
    return names;
  }

  /** A line for all ranks that are reached alike. */
  public static String explain(Map<Integer, Route> routes) {
    StringBuilder lines = new StringBuilder();
    alike(routes)
        .forEach(
            (route, peers) ->
                lines.append(
                    "  with ranks %s: %s, %s%n".formatted(peers, route.name, route.reason)));
    return lines.toString();
  }

  /** Tells how ranks are reached, each of the transport's subsystem. */
  public static void tell(Map<Integer, Route> routes, InfoLog info) {
    alike(routes)
        .forEach(
            (route, peers) ->
                info.tell(
                    Subsystems.of(route.name),
                    () -> "reaches ranks %s by %s, %s".formatted(peers, route.name, route.reason)));
  }

  private static Map<Route, List<Integer>> alike(Map<Integer, Route> routes) {
    Map<Route, List<Integer>> alike = new LinkedHashMap<>();
    new TreeMap<>(routes)
        .forEach(
            (peer, route) -> alike.computeIfAbsent(route, none -> new ArrayList<>()).add(peer));
    return alike;
  }

  /** All that can be chosen from. */
  List<NamedTransport> transports() {
    return List.copyOf(transports);
  }

  /** Returns the routes of chosen transports, by rank, without this rank. */
  public Map<Integer, Route> described(List<NamedTransport> chosen) {
    Map<Integer, Route> routes = new TreeMap<>();
    for (int peer = 0; peer < chosen.size(); peer++) {
      if (chosen.get(peer) != null) {
        String name = chosen.get(peer).name();
        routes.put(peer, new Route(name, said.get(peer).getOrDefault(name, "")));
      }
    }
    return routes;
  }

  /** Names of the transports that can reach a peer from here, best first. */
  private String offer(PeerInfo peer, long endNanos) {
    List<String> names = new ArrayList<>();
    said.put(peer.rank(), new TreeMap<>());
    for (NamedTransport named : transports) {
      String against = excluded.getOrDefault(peer.rank(), Map.of()).get(named.name());
      Support support = against == null ? named.transport.canConnect(peer) : Support.no(against);
      if (System.nanoTime() - endNanos > 0) {
        throw new TimeoutException(
            ErrorId.NOT_CONNECTED,
            "rank %d does not know by the deadline how it reaches rank %d: transport %s took too long"
                    .formatted(rank, peer.rank(), named.name())
                + " to say whether it can",
            "tell its author that canConnect must not wait, or leave it out by NCCL4J_TRANSPORTS");
      }
      table.append(
          "%n  rank %d, %s: %s, %s"
              .formatted(
                  peer.rank(), named.name(), support.possible() ? "yes" : "no", support.reason()));
      said.get(peer.rank()).put(named.name(), support.reason());
      if (support.possible()) {
        names.add(named.name());
      }
    }
    return String.join(",", names);
  }

  private String offerOf(List<byte[]> all, int peer) {
    String[] lines = new String(all.get(peer), UTF_8).split("\n", -1);
    return rank < lines.length ? lines[rank] : "";
  }

  private NamedTransport agree(int peer, String mine, String theirs) {
    String first = rank < peer ? mine : theirs;
    List<String> second = List.of((rank < peer ? theirs : mine).split(","));
    for (String name : first.split(",")) {
      if (!name.isEmpty() && second.contains(name)) {
        table.append("%n  rank %d: %s chosen".formatted(peer, name));
        return transports.stream().filter(t -> t.name().equals(name)).findFirst().orElseThrow();
      }
    }
    throw new InvalidUsageException(
        ErrorId.NO_TRANSPORT,
        "no transport connects rank %d with rank %d; rank %d can use [%s], rank %d [%s]; asked:%s%s"
            .formatted(
                rank,
                peer,
                rank,
                mine,
                peer,
                theirs,
                transports.isEmpty() ? " none, as there is none on the path of this rank" : table,
                whyNoNetwork()),
        "put a transport that reaches it on the class path or module path of both"
            + " (nccl-transport-p2p on one host, nccl-transport-net between hosts), or change the"
            + " setting that the reasons name");
  }

  /** Returns the obstacle of each network where this rank has no network at all. */
  private String whyNoNetwork() {
    return peers.get(rank).nets().isEmpty() && !networks.isEmpty()
        ? "%nnetworks of rank %d:%s".formatted(rank, networks)
        : "";
  }
}
