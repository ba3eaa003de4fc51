package org.nccl4j.transport.net;

import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.nccl4j.api.spi.PeerInfo;

/** The network that two ranks use with each other. Both find the same. */
final class CommonNetwork {
  /** Networks of this module, whose handles of one rank are mostly alike. */
  private static final Set<String> OWN = Set.of("IB", "Socket");

  private CommonNetwork() {}

  /** The best of the lower rank's networks that the other has too; empty if there is none. */
  static Optional<String> of(PeerInfo one, PeerInfo other) {
    boolean lower = one.rank() < other.rank();
    List<String> first = lower ? one.nets() : other.nets();
    List<String> second = lower ? other.nets() : one.nets();
    return first.stream().filter(second::contains).findFirst();
  }

  /** True if it is another author's, whose handles may have nothing in common. */
  static boolean isPlugin(PeerInfo one, PeerInfo other) {
    return !of(one, other).map(OWN::contains).orElse(true);
  }
}
