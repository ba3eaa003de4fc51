package org.nccl4j.api.init.connect;

import java.lang.System.Logger;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
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
import org.nccl4j.device.support.Patience;

/**
 * The transport to each rank. Both ends of a pair ask all their transports; the pair uses the first
 * one, in the order of its lower rank, that both can use.
 */
public final class TransportRoutes {
  private static final Logger LOG = DebugLog.of("INIT");

  /** Time that a transport's answer does not take unless it waits for something. */
  private static final long LONG_ANSWER_NANOS = 1_000_000_000;

  private final int rank;
  private final List<PeerInfo> peers;
  private final List<NamedTransport> transports;
  private final String networks;
  private final String allowed;
  private final Logger.Level level;

  /**
   * The answers of the transports, in their order, by rank; equal lists are one. Empty before they
   * are asked, and at this rank.
   */
  private final List<List<Support>> answers = new ArrayList<>();

  /**
   * A rank's routes.
   *
   * @param transports its own, best first
   * @param networks what each network said of its use on this rank, a line for each
   * @param allowed the value of NCCL4J_TRANSPORTS; empty if all transports are allowed
   * @param level at which the table of what was found and chosen is logged
   */
  public TransportRoutes(
      int rank,
      List<PeerInfo> peers,
      List<NamedTransport> transports,
      String networks,
      String allowed,
      Logger.Level level) {
    this.rank = rank;
    this.peers = peers;
    this.transports = transports;
    this.networks = networks;
    this.allowed = allowed.strip();
    this.level = level;
  }

  /** A transport and its provider. */
  public record NamedTransport(TransportProvider provider, Transport transport) {
    public String name() {
      return provider.name();
    }
  }

  /** The names of the transports to all other ranks, each once. */
  public static String names(List<NamedTransport> routes) {
    return routes.stream()
        .filter(Objects::nonNull)
        .map(NamedTransport::name)
        .distinct()
        .sorted()
        .collect(Collectors.joining(" and "));
  }

  /** Never again uses a chosen transport with a rank; to be called on both of them. */
  void exclude(int peer, NamedTransport chosen, String reason) {
    List<Support> without = new ArrayList<>(answers.get(peer));
    without.set(transports.indexOf(chosen), Support.no(reason));
    answers.set(peer, without);
  }

  /**
   * The transport to each rank; null at this one.
   *
   * @throws InvalidUsageException if a rank cannot be reached, with what every transport said
   */
  List<NamedTransport> choose(Bootstrap bootstrap) {
    if (answers.isEmpty()) {
      ask(bootstrap.exchangeEnd());
    }
    List<String> offers = new ArrayList<>();
    for (PeerInfo peer : peers) {
      String before = offers.isEmpty() ? "" : offers.get(offers.size() - 1);
      offers.add(peer.rank() == rank ? before : offer(peer)); // nobody reads the first
    }
    List<byte[]> all = bootstrap.allGather(encode(offers));
    List<NamedTransport> chosen = new ArrayList<>();
    for (PeerInfo peer : peers) {
      chosen.add(
          peer.rank() == rank
              ? null
              : agree(peer.rank(), offers.get(peer.rank()), offerTo(rank, all.get(peer.rank()))));
    }
    if (LOG.isLoggable(level)) {
      StringBuilder table = new StringBuilder();
      peers.stream()
          .filter(peer -> peer.rank() != rank)
          .forEach(
              peer ->
                  table
                      .append(said(peer))
                      .append(
                          "%n  rank %d: %s chosen"
                              .formatted(peer.rank(), chosen.get(peer.rank()).name())));
      LOG.log(level, "rank {0}: transports{1}", rank, table);
    }
    return chosen;
  }

  /** Offers by rank, as lines: how many ranks after each other have the same, and the offer. */
  private static byte[] encode(List<String> offers) {
    StringBuilder lines = new StringBuilder();
    int begin = 0;
    for (int end = 1; end <= offers.size(); end++) {
      if (end == offers.size() || !offers.get(end).equals(offers.get(begin))) {
        lines.append(end - begin).append(' ').append(offers.get(begin)).append('\n');
        begin = end;
      }
    }
    return lines.toString().getBytes(UTF_8);
  }

  /** Another rank's offer to a rank. */
  private static String offerTo(int rank, byte[] all) {
    int before = 0;
    for (String line : new String(all, UTF_8).split("\n")) {
      int space = line.indexOf(' ');
      before += space < 0 ? 0 : Integer.parseInt(line.substring(0, space));
      if (before > rank) {
        return line.substring(space + 1);
      }
    }
    return "";
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
                    () ->
                        "connects to ranks %s through %s: %s"
                            .formatted(peers, route.name, route.reason)));
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

  /** Returns the routes of chosen transports, by rank, without this rank; equal ones are one. */
  public Map<Integer, Route> described(List<NamedTransport> chosen) {
    Map<Integer, Route> routes = new TreeMap<>();
    Map<Route, Route> different = new HashMap<>();
    for (PeerInfo peer : peers) {
      NamedTransport named = chosen.get(peer.rank());
      if (named != null) {
        Support support = answers.get(peer.rank()).get(transports.indexOf(named));
        Route route = new Route(named.name(), support.reason());
        routes.put(peer.rank(), different.computeIfAbsent(route, same -> same));
      }
    }
    return routes;
  }

  /** Asks each transport about each rank, once. */
  private void ask(long endNanos) {
    Map<List<Support>, List<Support>> different = new HashMap<>();
    for (PeerInfo peer : peers) {
      List<Support> ofPeer = peer.rank() == rank ? List.of() : ask(peer, endNanos);
      answers.add(different.computeIfAbsent(ofPeer, same -> same));
    }
  }

  private List<Support> ask(PeerInfo peer, long endNanos) {
    List<Support> supports = new ArrayList<>();
    for (NamedTransport named : transports) {
      long began = System.nanoTime();
      supports.add(named.transport.canConnect(peer));
      long now = System.nanoTime();
      if (now - endNanos > 0) {
        throw late(peer, named, now - began);
      }
    }
    return List.copyOf(supports);
  }

  private TimeoutException late(PeerInfo peer, NamedTransport last, long nanos) {
    String late =
        "rank %d found no transport to rank %d by the deadline: ".formatted(rank, peer.rank());
    return nanos > LONG_ANSWER_NANOS
        ? new TimeoutException(
            ErrorId.NOT_CONNECTED,
            "%scanConnect of transport %s took %s"
                .formatted(late, last.name(), Patience.text(Duration.ofNanos(nanos))),
            "leave it out of NCCL4J_TRANSPORTS, and report to its author that canConnect must not"
                + " wait")
        : new TimeoutException(
            ErrorId.NOT_CONNECTED,
            late + "the creation has taken longer than the init timeout",
            "allow more time with NCCL4J_INIT_TIMEOUT or CommunicatorConfig.withInitTimeout");
  }

  /** Names of the transports that can reach a peer from here, best first. */
  private String offer(PeerInfo peer) {
    List<Support> supports = answers.get(peer.rank());
    return IntStream.range(0, supports.size())
        .filter(at -> supports.get(at).possible())
        .mapToObj(at -> transports.get(at).name())
        .collect(Collectors.joining(","));
  }

  /** The answers of all transports, a line for each. */
  private String said(PeerInfo peer) {
    List<Support> supports = answers.get(peer.rank());
    StringBuilder lines = new StringBuilder();
    for (int at = 0; at < supports.size(); at++) {
      Support support = supports.get(at);
      lines.append(
          "%n  rank %d, %s: %s, %s"
              .formatted(
                  peer.rank(),
                  transports.get(at).name(),
                  support.possible() ? "yes" : "no",
                  support.reason()));
    }
    return lines.toString();
  }

  private NamedTransport agree(int peer, String mine, String theirs) {
    String first = rank < peer ? mine : theirs;
    List<String> second = List.of((rank < peer ? theirs : mine).split(","));
    for (String name : first.split(",")) {
      if (!name.isEmpty() && second.contains(name)) {
        return transports.stream().filter(t -> t.name().equals(name)).findFirst().orElseThrow();
      }
    }
    throw new InvalidUsageException(
        ErrorId.NO_TRANSPORT,
        ("no transport connects rank %d with rank %d; rank %d can use [%s], rank %d [%s]; the"
                + " transports say:%s%s")
            .formatted(
                rank,
                peer,
                rank,
                mine,
                peer,
                theirs,
                transports.isEmpty()
                    ? " nothing, since this rank's path has no transport"
                    : said(peers.get(peer)),
                whyNoNetwork() + whatIsAllowed()),
        "put a transport that reaches it on the class path or module path of both"
            + " (nccl-transport-p2p on one host, nccl-transport-net between hosts), or change the"
            + " setting that the reasons name");
  }

  private String whatIsAllowed() {
    return allowed.isEmpty()
        ? ""
        : "%nNCCL4J_TRANSPORTS=%s allows only %s"
            .formatted(
                allowed,
                transports.stream().map(NamedTransport::name).collect(Collectors.joining(", ")));
  }

  /** Returns the obstacle of each network where this rank has no network at all. */
  private String whyNoNetwork() {
    return peers.get(rank).nets().isEmpty() && !networks.isEmpty()
        ? "%nnetworks of rank %d:%s".formatted(rank, networks)
        : "";
  }
}
