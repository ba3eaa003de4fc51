package org.nccl4j.api.wire;

import java.net.Inet4Address;
import java.net.InetAddress;
import java.util.List;
import java.util.Locale;
import java.util.Optional;

/**
 * The user's choice of network interfaces, in NCCL's syntax.
 *
 * @param names NCCL_SOCKET_IFNAME: "eth,ib" prefixes, "=eth0" whole names, "^docker" all but these;
 *     empty for a choice by {@link Interfaces}
 * @param family NCCL_SOCKET_FAMILY: AF_INET, AF_INET6, or empty for either, IPv4 before IPv6
 */
public record InterfaceFilter(String names, String family) {
  /** Makes the values canonical. */
  public InterfaceFilter {
    names = names.strip();
    family = family.strip().toUpperCase(Locale.ROOT);
  }

  /** True if the user names interfaces. */
  public boolean selects() {
    return !names.isEmpty();
  }

  /** True if the user lists the interfaces to use, not those to leave out. */
  public boolean lists() {
    return selects() && !names.startsWith("^");
  }

  /** True if an interface may be used as far as its name goes. */
  public boolean allows(String name) {
    if (!selects()) {
      return true;
    }
    boolean exclude = names.startsWith("^");
    String rest = exclude ? names.substring(1) : names;
    boolean whole = rest.startsWith("=");
    boolean listed = false;
    for (String each : (whole ? rest.substring(1) : rest).split(",", -1)) {
      String part = each.strip();
      listed |= !part.isEmpty() && (whole ? name.equals(part) : name.startsWith(part));
    }
    return listed != exclude;
  }

  /** The best of an interface's addresses that mean something to other hosts. */
  Optional<InetAddress> address(List<InetAddress> addresses) {
    InetAddress best = null;
    for (InetAddress address : addresses) {
      boolean isFourth = address instanceof Inet4Address;
      boolean meansSomething = !address.isLinkLocalAddress() && !address.isAnyLocalAddress();
      boolean isOfFamily = family.isEmpty() || family.equals("AF_INET") == isFourth;
      boolean isBetter = best == null || isFourth && !(best instanceof Inet4Address);
      if (meansSomething && isOfFamily && isBetter) {
        best = address;
      }
    }
    return Optional.ofNullable(best);
  }

  /** The family as a clause of messages; empty if it is not set. */
  String ofFamily() {
    return family.isEmpty() ? "" : " of family " + family;
  }
}
