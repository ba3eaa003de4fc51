package org.nccl4j.transport.net.ib;

import java.util.List;
import java.util.stream.Collectors;
import org.nccl4j.transport.net.ib.verbs.Gid;

/**
 * A device of the network: a port, or several ports that are merged into one.
 *
 * @param ports at least one, with the address that each uses
 */
record LocalNic(List<LocalQpInfo> ports) {
  LocalNic {
    ports = List.copyOf(ports);
  }

  static LocalNic of(LocalQpInfo port) {
    return new LocalNic(List.of(port));
  }

  /** The names of the ports with + between them, as NCCL names merged devices. */
  String name() {
    return ports.stream().map(each -> each.port().name()).collect(Collectors.joining("+"));
  }

  /** The sum of the ports' speeds, in Mbit/s. */
  int megabits() {
    return ports.stream().mapToInt(each -> each.port().megabits()).sum();
  }

  List<Gid> gids() {
    return ports.stream().map(LocalQpInfo::gid).toList();
  }
}
