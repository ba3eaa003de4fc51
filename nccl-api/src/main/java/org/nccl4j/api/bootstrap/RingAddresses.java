package org.nccl4j.api.bootstrap;

import java.net.InetAddress;
import java.util.List;
import java.util.stream.Stream;
import org.nccl4j.api.wire.InterfaceFilter;

/** The addresses at which the previous rank of the ring reaches a rank. */
final class RingAddresses {
  private RingAddresses() {}

  /**
   * Best first: loopback only where it has led to the root, or there is nothing else.
   *
   * @param toRoot the address by which this rank has reached the root, and so the best
   * @param all of this host's interfaces
   */
  static List<InetAddress> choose(
      InetAddress toRoot, List<InetAddress> all, InterfaceFilter filter) {
    boolean mayUse = !filter.selects() || all.contains(toRoot);
    List<InetAddress> addresses =
        Stream.concat(
                mayUse ? Stream.of(toRoot) : Stream.empty(),
                all.stream().filter(address -> !address.isLoopbackAddress()))
            .distinct()
            .toList();
    return addresses.isEmpty() ? all : addresses;
  }
}
