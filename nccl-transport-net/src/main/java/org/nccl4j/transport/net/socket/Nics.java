package org.nccl4j.transport.net.socket;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.nccl4j.api.wire.Interfaces;

/**
 * The interfaces that carry data, and why the others do not: those that the user selects, else
 * those that lead to other hosts, else loopback, which is enough on one host.
 *
 * @param chosen fastest first; empty if there are none
 * @param rejected each with its reason
 */
record Nics(List<Nic> chosen, List<String> rejected) {
  static Nics find(SocketSettings settings) {
    Interfaces found = Interfaces.find(settings.interfaces());
    List<String> rejected = new ArrayList<>(found.rejected());
    boolean outwardAlone = !settings.interfaces().selects() && !found.outward().isEmpty();
    if (outwardAlone) {
      found
          .loopback()
          .forEach(each -> rejected.add(each.name() + " (does not lead to other hosts)"));
    }
    List<Nic> chosen =
        Stream.of(
                found.outward(), outwardAlone ? List.<Interfaces.Interface>of() : found.loopback())
            .flatMap(List::stream)
            .map(each -> Nic.of(each.name(), each.address()))
            .sorted(Comparator.comparing(Nic::megabits).reversed())
            .toList();
    return new Nics(chosen, List.copyOf(rejected));
  }

  /** Returns, for people, the used cards and the reason why others are not used. */
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
}
