package org.nccl4j.api.bootstrap;

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
import org.nccl4j.device.NcclException;
import org.nccl4j.device.SystemErrorException;

/**
 * Which of this host's addresses others are told: one of each interface that NCCL_SOCKET_IFNAME
 * selects or, without it, that is up and leads somewhere, in the order of their numbers, then
 * loopback, which is enough where all ranks are on this host. Without a selection virtual
 * interfaces count where there are no others. IPv4 comes before IPv6, unless NCCL_SOCKET_FAMILY
 * says otherwise.
 */
final class LocalAddresses {
  private static final List<String> VIRTUAL = List.of("docker", "veth", "virbr", "br-", "cni");

  /** So many of IPv6 and loopback leave room in an id. */
  private static final int MOST = 4;

  /**
   * An interface that is up.
   *
   * @param addresses that others may know
   */
  record Candidate(String name, boolean loopback, List<InetAddress> addresses) {
    private boolean isVirtual() {
      return VIRTUAL.stream().anyMatch(name::startsWith);
    }

    /** The best address of a family, if any. */
    private Stream<InetAddress> address(String family) {
      return addresses.stream()
          .filter(
              address ->
                  family.isEmpty() || family.equals("AF_INET") == address instanceof Inet4Address)
          .sorted(Comparator.comparing(address -> !(address instanceof Inet4Address)))
          .limit(1);
    }
  }

  private LocalAddresses() {}

  /** Addresses to be reached at, best first; never empty. */
  static List<InetAddress> choose(BootstrapOptions options) {
    return choose(interfacesThatAreUp(), options);
  }

  /** The same of given interfaces, in the order of their numbers. */
  static List<InetAddress> choose(List<Candidate> up, BootstrapOptions options) {
    boolean selects = !options.interfaces().isBlank();
    List<Candidate> all =
        up.stream().filter(each -> !selects || matches(options.interfaces(), each.name())).toList();
    List<InetAddress> addresses =
        new ArrayList<>(outward(all, each -> selects || !each.isVirtual(), options.family()));
    if (addresses.isEmpty()) {
      addresses.addAll(outward(all, Candidate::isVirtual, options.family()));
    }
    all.stream()
        .filter(Candidate::loopback)
        .flatMap(each -> each.address(options.family()))
        .findFirst()
        .ifPresent(addresses::add);
    if (addresses.isEmpty()) {
      throw selects ? nothingSelected(up, options) : nothingUp(options);
    }
    return addresses;
  }

  /**
   * Those by which the rank before this one may come.
   *
   * @param toRoot the address by which this rank has reached the root, and so the best
   */
  static List<InetAddress> forOthers(InetAddress toRoot, BootstrapOptions options) {
    return forOthers(toRoot, choose(options), options);
  }

  /** The same of the addresses that were chosen. */
  static List<InetAddress> forOthers(
      InetAddress toRoot, List<InetAddress> chosen, BootstrapOptions options) {
    boolean mayUse = options.interfaces().isBlank() || chosen.contains(toRoot);
    List<InetAddress> addresses =
        Stream.concat(
                mayUse ? Stream.of(toRoot) : Stream.empty(),
                chosen.stream().filter(address -> !address.isLoopbackAddress()))
            .distinct()
            .toList();
    return addresses.isEmpty() ? chosen : addresses;
  }

  private static List<InetAddress> outward(
      List<Candidate> all, Predicate<Candidate> which, String family) {
    return all.stream()
        .filter(each -> !each.loopback())
        .filter(which)
        .flatMap(each -> each.address(family))
        .limit(MOST)
        .toList();
  }

  private static NcclException nothingSelected(List<Candidate> up, BootstrapOptions options) {
    return new InvalidArgumentException(
        ErrorId.SETTING,
        "NCCL_SOCKET_IFNAME=%s selects no interface that is up with an address%s; there are %s"
            .formatted(
                options.interfaces(), ofFamily(options), up.stream().map(Candidate::name).toList()),
        "name one of these, or unset NCCL_SOCKET_IFNAME");
  }

  private static NcclException nothingUp(BootstrapOptions options) {
    return new SystemErrorException(
        ErrorId.INTERFACE,
        "this host has no network interface that is up with an address" + ofFamily(options),
        "bring up an interface, at least loopback (ip link set lo up), or change"
            + " NCCL_SOCKET_FAMILY");
  }

  private static String ofFamily(BootstrapOptions options) {
    return options.family().isEmpty() ? "" : " of family " + options.family();
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

  private static List<Candidate> interfacesThatAreUp() {
    try {
      List<NetworkInterface> up = new ArrayList<>();
      for (NetworkInterface each : Collections.list(NetworkInterface.getNetworkInterfaces())) {
        if (each.isUp()) {
          up.add(each);
        }
      }
      up.sort(Comparator.comparing(NetworkInterface::getIndex));
      List<Candidate> candidates = new ArrayList<>();
      for (NetworkInterface each : up) {
        candidates.add(new Candidate(each.getName(), each.isLoopback(), usable(each)));
      }
      return candidates;
    } catch (SocketException e) {
      throw new SystemErrorException(
          ErrorId.INTERFACE,
          "the network interfaces cannot be listed: " + e.getMessage(),
          "name the root's address with NCCL_COMM_ID=host:port",
          e);
    }
  }

  private static List<InetAddress> usable(NetworkInterface of) {
    return of.inetAddresses()
        .filter(address -> !address.isLinkLocalAddress() && !address.isAnyLocalAddress())
        .toList();
  }
}
