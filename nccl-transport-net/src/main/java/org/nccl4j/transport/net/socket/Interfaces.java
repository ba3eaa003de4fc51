package org.nccl4j.transport.net.socket;

import java.net.Inet4Address;
import java.net.InetAddress;
import java.net.NetworkInterface;
import java.net.SocketException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * Which network interfaces are used, and why the others are not. With NCCL_SOCKET_IFNAME, those
 * that it selects; without it, those that lead to other hosts; if there are none, virtual bridges;
 * if there are none, loopback, which is enough on one host. The fastest come first.
 *
 * @param chosen best first; empty if there are none
 * @param rejected each with its reason
 */
record Interfaces(List<Nic> chosen, List<String> rejected) {
  private static final List<String> VIRTUAL = List.of("docker", "virbr", "br-", "cni");

  static Interfaces find(SocketSettings settings) {
    Search search = new Search(settings);
    try {
      for (NetworkInterface each : Collections.list(NetworkInterface.getNetworkInterfaces())) {
        search.look(each);
      }
    } catch (SocketException e) {
      search.rejected.add("the interfaces cannot be listed (" + e.getMessage() + ")");
    }
    return search.result();
  }

  /** For a person: what is used, and what is not for which reason. */
  String text() {
    String used =
        chosen.isEmpty()
            ? "no network interface can be used"
            : chosen.stream().map(Nic::toString).collect(Collectors.joining(", "));
    String others = rejected.isEmpty() ? "" : "; rejected " + String.join(", ", rejected);
    String remedy =
        chosen.isEmpty()
            ? "; bring one up, or change NCCL_SOCKET_IFNAME or NCCL_SOCKET_FAMILY"
            : "";
    return used + others + remedy;
  }

  /** NCCL's syntax: "eth,ib" prefixes, "=eth0" whole names, "^docker" all but these. */
  static boolean matches(String selector, String name) {
    boolean exclude = selector.startsWith("^");
    String rest = exclude ? selector.substring(1) : selector;
    boolean whole = rest.startsWith("=");
    boolean listed =
        Stream.of((whole ? rest.substring(1) : rest).split(","))
            .map(String::trim)
            .filter(part -> !part.isEmpty())
            .anyMatch(part -> whole ? name.equals(part) : name.startsWith(part));
    return listed != exclude;
  }

  /** Candidates by how well they lead to other hosts. */
  private static final class Search {
    private final SocketSettings settings;
    private final List<Nic> outward = new ArrayList<>();
    private final List<Nic> virtual = new ArrayList<>();
    private final List<Nic> loopback = new ArrayList<>();
    private final List<String> rejected = new ArrayList<>();

    Search(SocketSettings settings) {
      this.settings = settings;
    }

    void look(NetworkInterface each) throws SocketException {
      String name = each.getName();
      Optional<InetAddress> address = address(each);
      if (!settings.interfaces().isEmpty() && !matches(settings.interfaces(), name)) {
        rejected.add("%s (NCCL_SOCKET_IFNAME=%s)".formatted(name, settings.interfaces()));
      } else if (!each.isUp()) {
        rejected.add(name + " (down)");
      } else if (address.isEmpty()) {
        String family = settings.family().isEmpty() ? "" : " of family " + settings.family();
        rejected.add("%s (no address%s)".formatted(name, family));
      } else {
        kind(each).add(Nic.of(name, address.get()));
      }
    }

    private List<Nic> kind(NetworkInterface each) throws SocketException {
      if (!settings.interfaces().isEmpty()) {
        return outward;
      }
      if (each.isLoopback()) {
        return loopback;
      }
      return VIRTUAL.stream().anyMatch(each.getName()::startsWith) ? virtual : outward;
    }

    /** IPv4 before IPv6, unless the family is set; none that mean nothing to other hosts. */
    private Optional<InetAddress> address(NetworkInterface each) {
      return each.inetAddresses()
          .filter(address -> !address.isLinkLocalAddress() && !address.isAnyLocalAddress())
          .filter(
              address ->
                  settings.family().isEmpty()
                      || settings.family().equals("AF_INET") == address instanceof Inet4Address)
          .min(Comparator.comparing(address -> !(address instanceof Inet4Address)));
    }

    Interfaces result() {
      List<List<Nic>> kinds = List.of(outward, virtual, loopback);
      List<Nic> chosen =
          kinds.stream().filter(kind -> !kind.isEmpty()).findFirst().orElse(List.of());
      kinds.stream()
          .filter(kind -> kind != chosen)
          .flatMap(List::stream)
          .forEach(nic -> rejected.add(nic.name() + " (does not lead to other hosts)"));
      return new Interfaces(
          chosen.stream().sorted(Comparator.comparing(Nic::megabits).reversed()).toList(),
          List.copyOf(rejected));
    }
  }
}
