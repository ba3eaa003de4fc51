package org.nccl4j.transport.net.ib;

import java.io.IOException;
import java.net.Inet4Address;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.NetworkInterface;
import java.net.UnknownHostException;
import java.nio.channels.ServerSocketChannel;
import java.util.Collections;
import java.util.Comparator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.nccl4j.api.spi.NetContext;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;

/**
 * Where the control connections, which are TCP, can be made: at the RoCE address itself, which the
 * other rank has to reach anyway; else at this host's interfaces, those that NCCL_SOCKET_IFNAME
 * names if it is set; loopback comes last, for ranks of one host.
 */
final class ControlAddresses {
  /** How interfaces are called that lead to containers and guests of this host. */
  private static final List<String> VIRTUAL = List.of("docker", "virbr", "br-", "cni");

  private ControlAddresses() {}

  /** Addresses to be reached at, best first. */
  static List<InetAddress> of(NetContext context, Gid gid) throws IOException {
    Set<InetAddress> addresses = new LinkedHashSet<>();
    if (gid.type() == Gid.Type.ROCE_V2 && !gid.isLinkLocal()) {
      addresses.add(address(gid));
    }
    Optional<String> names = context.setting("NCCL_SOCKET_IFNAME");
    HcaFilter filter = HcaFilter.parse(names.orElse("").replace(":", ""));
    Set<InetAddress> loopback = new LinkedHashSet<>();
    for (NetworkInterface each : Collections.list(NetworkInterface.getNetworkInterfaces())) {
      boolean leadsNowhere =
          names.isEmpty() && VIRTUAL.stream().anyMatch(each.getName()::startsWith);
      if (each.isUp() && !leadsNowhere && filter.allows(each.getName(), 0)) {
        for (InetAddress address : Collections.list(each.getInetAddresses())) {
          if (!address.isLinkLocalAddress()) {
            (each.isLoopback() ? loopback : addresses).add(address);
          }
        }
      }
    }
    addresses.addAll(loopback);
    return addresses.stream().sorted(Comparator.comparingInt(ControlAddresses::rank)).toList();
  }

  private static int rank(InetAddress address) {
    boolean v4 = address instanceof Inet4Address;
    return (address.isLoopbackAddress() ? 4 : 0) + (v4 ? 0 : 1);
  }

  private static InetAddress address(Gid gid) throws UnknownHostException {
    return InetAddress.getByAddress(gid.address());
  }

  /** A socket that listens on a port of NCCL4J_BOOTSTRAP_PORTS, or on any. Never blocks. */
  static ServerSocketChannel listen(NetContext context) throws IOException {
    String range = context.setting("NCCL4J_BOOTSTRAP_PORTS").orElse("0");
    String[] ends = range.split("-", 2);
    int first;
    int last;
    try {
      first = Integer.parseInt(ends[0].strip());
      last = Integer.parseInt(ends[ends.length - 1].strip());
    } catch (NumberFormatException e) {
      throw new InvalidArgumentException(
          ErrorId.SETTING,
          "NCCL4J_BOOTSTRAP_PORTS=" + range + " is no range of ports",
          "set it to a port or a range such as 29500-29600",
          e);
    }
    ServerSocketChannel server = ServerSocketChannel.open();
    IOException why = null;
    for (int port = first; port <= last; port++) {
      try {
        server.bind(new InetSocketAddress(port));
        server.configureBlocking(false);
        return server;
      } catch (IOException e) {
        why = e;
      }
    }
    server.close();
    throw why == null ? new IOException("the range " + range + " is empty") : why;
  }
}
