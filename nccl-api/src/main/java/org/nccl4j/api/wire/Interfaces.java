package org.nccl4j.api.wire;

import java.lang.System.Logger.Level;
import java.net.InetAddress;
import java.net.NetworkInterface;
import java.net.SocketException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.topo.detect.VirtualInterfaces;

/**
 * This host's network interfaces for a job: those that NCCL_SOCKET_IFNAME selects or, if it is not
 * set, those that lead to other hosts; virtual ones only if there are no others. Each has one
 * address, and the interfaces keep the order of their numbers.
 *
 * @param filter the settings
 * @param outward interfaces but loopback
 * @param loopback enough where all ranks are on this host
 * @param rejected the other interfaces, each with the reason, for messages
 * @param up the names of all interfaces that are up, for messages
 */
public record Interfaces(
    InterfaceFilter filter,
    List<Interface> outward,
    List<Interface> loopback,
    List<String> rejected,
    List<String> up) {
  private static final System.Logger LOG = DebugLog.of("NET");

  /**
   * An interface with the address by which others reach it.
   *
   * @param name such as "eth0"
   */
  public record Interface(String name, InetAddress address) {}

  /**
   * An interface of this host.
   *
   * @param addresses in the system's order
   */
  record Candidate(String name, boolean up, boolean loopback, List<InetAddress> addresses) {}

  /** An interface in the system's list. */
  interface Listed {
    /**
     * Reads its properties.
     *
     * @throws SocketException if it is gone
     */
    Candidate read() throws SocketException;
  }

  /** An interface that Java has listed. */
  private record Card(NetworkInterface each) implements Listed {
    @Override
    public Candidate read() throws SocketException {
      List<InetAddress> addresses = Collections.list(each.getInetAddresses());
      return new Candidate(each.getName(), each.isUp(), each.isLoopback(), addresses);
    }
  }

  /**
   * A class: to link a lambda expression takes a while, and a process's first call waits for it.
   */
  private static final class ByNumber implements Comparator<NetworkInterface> {
    @Override
    public int compare(NetworkInterface one, NetworkInterface other) {
      return Integer.compare(one.getIndex(), other.getIndex());
    }
  }

  /** The interfaces of this host. */
  public static Interfaces find(InterfaceFilter filter) {
    List<Listed> cards = new ArrayList<>();
    try {
      List<NetworkInterface> all = Collections.list(NetworkInterface.getNetworkInterfaces());
      all.sort(new ByNumber());
      for (NetworkInterface each : all) {
        cards.add(new Card(each));
      }
    } catch (SocketException e) {
      throw new SystemErrorException(
          ErrorId.INTERFACE,
          "the network interfaces cannot be listed: " + e.getMessage(),
          "look for the reason in the system's log; NCCL_COMM_ID=host:port names the bootstrap"
              + " root's address without a list",
          e);
    }
    return among(read(cards), filter);
  }

  /** Returns the interfaces that are still there: a container's may vanish at any time. */
  static List<Candidate> read(List<? extends Listed> cards) {
    List<Candidate> candidates = new ArrayList<>();
    for (Listed each : cards) {
      try {
        candidates.add(each.read());
      } catch (SocketException e) {
        LOG.log(Level.DEBUG, "an interface has vanished while all were listed", e);
      }
    }
    return candidates;
  }

  /** The selected ones among all interfaces of a host. */
  static Interfaces among(List<Candidate> candidates, InterfaceFilter filter) {
    List<Interface> outward = new ArrayList<>();
    List<Interface> virtual = new ArrayList<>();
    List<Interface> loopback = new ArrayList<>();
    List<String> rejected = new ArrayList<>();
    for (Candidate each : candidates) {
      Optional<InetAddress> address = filter.address(each.addresses());
      if (!filter.allows(each.name())) {
        rejected.add(each.name() + " (NCCL_SOCKET_IFNAME=" + filter.names() + ")");
      } else if (!each.up()) {
        rejected.add(each.name() + " (down)");
      } else if (address.isEmpty()) {
        rejected.add(each.name() + " (no address" + filter.ofFamily() + ")");
      } else {
        boolean isVirtual = !filter.selects() && VirtualInterfaces.include(each.name());
        List<Interface> kind = each.loopback() ? loopback : isVirtual ? virtual : outward;
        kind.add(new Interface(each.name(), address.get()));
      }
    }
    if (!outward.isEmpty()) {
      for (Interface each : virtual) {
        rejected.add(each.name() + " (does not lead to other hosts)");
      }
    }
    List<String> up = new ArrayList<>();
    for (Candidate each : candidates) {
      if (each.up()) {
        up.add(each.name());
      }
    }
    return new Interfaces(
        filter,
        List.copyOf(outward.isEmpty() ? virtual : outward),
        List.copyOf(loopback),
        List.copyOf(rejected),
        List.copyOf(up));
  }

  /** Addresses to be reached at: so many that lead outward, then one of loopback, if any. */
  public List<InetAddress> addresses(int most) {
    List<InetAddress> addresses = new ArrayList<>();
    for (Interface each : outward.subList(0, Math.min(most, outward.size()))) {
      addresses.add(each.address());
    }
    if (!loopback.isEmpty()) {
      addresses.add(loopback.get(0).address());
    }
    if (addresses.isEmpty()) {
      throw none();
    }
    return List.copyOf(addresses);
  }

  private NcclException none() {
    if (filter.selects()) {
      return new InvalidArgumentException(
          ErrorId.SETTING,
          "NCCL_SOCKET_IFNAME=%s selects no interface that is up with an address%s; there are %s"
              .formatted(filter.names(), filter.ofFamily(), up),
          "name one of these, or unset NCCL_SOCKET_IFNAME");
    }
    return new SystemErrorException(
        ErrorId.INTERFACE,
        "this host has no network interface that is up with an address" + filter.ofFamily(),
        "bring up an interface, at least loopback (ip link set lo up), or change"
            + " NCCL_SOCKET_FAMILY");
  }
}
