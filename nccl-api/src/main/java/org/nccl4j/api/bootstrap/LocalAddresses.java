package org.nccl4j.api.bootstrap;

import java.io.IOException;
import java.net.Inet4Address;
import java.net.InetAddress;
import java.net.NetworkInterface;
import java.net.SocketException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.function.Predicate;
import java.util.stream.Stream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.SystemErrorException;

/**
 * Which of this host's addresses others are told. With NCCL_SOCKET_IFNAME, the first that it
 * selects; without it, one of each interface that is up and leads somewhere, in the order of their
 * numbers, then loopback, which is enough where all ranks are on this host. Virtual interfaces
 * count where there are no others. IPv4 comes before IPv6, unless NCCL_SOCKET_FAMILY says
 * otherwise.
 */
final class LocalAddresses {
  private static final List<String> VIRTUAL = List.of("docker", "veth", "virbr", "br-", "cni");

  /** So many of IPv6 and loopback leave room in an id. */
  private static final int MOST = 4;

  private LocalAddresses() {}

  /** Addresses to be reached at, best first; never empty. */
  static List<InetAddress> choose(BootstrapOptions options) {
    List<NetworkInterface> all = interfacesThatAreUp();
    if (!options.interfaces().isBlank()) {
      return List.of(chosen(all, options));
    }
    List<InetAddress> addresses =
        new ArrayList<>(outward(all, candidate -> !isVirtual(candidate), options.family()));
    if (addresses.isEmpty()) {
      addresses.addAll(outward(all, LocalAddresses::isVirtual, options.family()));
    }
    all.stream()
        .filter(LocalAddresses::isLoopback)
        .flatMap(candidate -> usable(candidate, options.family()))
        .findFirst()
        .ifPresent(addresses::add);
    if (addresses.isEmpty()) {
      throw new SystemErrorException(
          ErrorId.INTERFACE,
          "this host has no network interface that is up with an address"
              + (options.family().isEmpty() ? "" : " of family " + options.family()),
          "bring up an interface, at least loopback (ip link set lo up), or change"
              + " NCCL_SOCKET_FAMILY");
    }
    return addresses;
  }

  /**
   * Those by which the rank before this one may come.
   *
   * @param toRoot the address by which this rank has reached the root, and so the best
   */
  static List<InetAddress> forOthers(InetAddress toRoot, BootstrapOptions options) {
    if (!options.interfaces().isBlank()) {
      return choose(options);
    }
    Stream<InetAddress> others =
        choose(options).stream().filter(address -> !address.isLoopbackAddress());
    return Stream.concat(Stream.of(toRoot), others).distinct().toList();
  }

  private static List<InetAddress> outward(
      List<NetworkInterface> all, Predicate<NetworkInterface> which, String family) {
    return all.stream()
        .filter(candidate -> !isLoopback(candidate))
        .filter(which)
        .flatMap(candidate -> usable(candidate, family).limit(1))
        .limit(MOST)
        .toList();
  }

  private static InetAddress chosen(List<NetworkInterface> all, BootstrapOptions options) {
    return all.stream()
        .filter(candidate -> matches(options.interfaces(), candidate.getName()))
        .flatMap(candidate -> usable(candidate, options.family()))
        .findFirst()
        .orElseThrow(
            () ->
                new InvalidArgumentException(
                    ErrorId.SETTING,
                    "NCCL_SOCKET_IFNAME=%s selects no interface that is up with an address%s; there are %s"
                        .formatted(
                            options.interfaces(),
                            options.family().isEmpty() ? "" : " of family " + options.family(),
                            all.stream().map(NetworkInterface::getName).toList()),
                    "name one of these, or unset NCCL_SOCKET_IFNAME"));
  }

  /** NCCL's syntax: "eth,ib" prefixes, "=eth0" whole names, "^docker" all but these. */
  static boolean matches(String selector, String name) {
    String rest = selector.trim();
    boolean exclude = rest.startsWith("^");
    rest = exclude ? rest.substring(1) : rest;
    boolean whole = rest.startsWith("=");
    rest = whole ? rest.substring(1) : rest;
    boolean listed =
        Stream.of(rest.split(",", -1))
            .map(String::trim)
            .filter(part -> !part.isEmpty())
            .anyMatch(part -> whole ? name.equals(part) : name.startsWith(part));
    return listed != exclude;
  }

  private static List<NetworkInterface> interfacesThatAreUp() {
    try {
      List<NetworkInterface> up = new ArrayList<>();
      for (NetworkInterface each : Collections.list(NetworkInterface.getNetworkInterfaces())) {
        if (each.isUp()) {
          up.add(each);
        }
      }
      up.sort(Comparator.comparing(NetworkInterface::getIndex));
      return up;
    } catch (SocketException e) {
      throw new SystemErrorException(
          ErrorId.INTERFACE,
          "the network interfaces cannot be listed: " + e.getMessage(),
          "name the root's address with NCCL_COMM_ID=host:port",
          e);
    }
  }

  private static Stream<InetAddress> usable(NetworkInterface of, String family) {
    return of.inetAddresses()
        .filter(address -> !address.isLinkLocalAddress() && !address.isAnyLocalAddress())
        .filter(
            address ->
                family.isEmpty() || family.equals("AF_INET") == address instanceof Inet4Address)
        .sorted(Comparator.comparing(address -> !(address instanceof Inet4Address)));
  }

  private static boolean isLoopback(NetworkInterface candidate) {
    try {
      return candidate.isLoopback();
    } catch (IOException e) {
      return false;
    }
  }

  private static boolean isVirtual(NetworkInterface candidate) {
    return VIRTUAL.stream().anyMatch(prefix -> candidate.getName().startsWith(prefix));
  }
}
