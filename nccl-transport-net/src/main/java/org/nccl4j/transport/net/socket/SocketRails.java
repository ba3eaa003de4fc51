package org.nccl4j.transport.net.socket;

import java.net.InetAddress;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * The interfaces by which a connection can come: first those over which its lanes are spread, its
 * rails, then those that only take over.
 *
 * @param addresses the device's first
 * @param speeds of the addresses, in eighths of the fastest rail's
 * @param count of the rails
 */
record SocketRails(List<InetAddress> addresses, List<Integer> speeds, int count) {
  /**
   * The rails of a device: interfaces as fast as it, and those of other speeds that the user has
   * listed and whose speeds are known to be at least an eighth of the fastest's. Others may be for
   * management or storage.
   *
   * @param nics fastest first
   * @param listed whether the user has listed them
   */
  static SocketRails of(Nic device, List<Nic> nics, boolean listed) {
    List<Nic> rails = new ArrayList<>(List.of(device));
    nics.stream().filter(nic -> nic.megabits() == device.megabits()).forEach(rails::add);
    if (listed && device.isKnown()) {
      nics.stream().filter(Nic::isKnown).forEach(rails::add);
    }
    int fastest = rails.stream().mapToInt(Nic::megabits).max().orElseThrow();
    rails.removeIf(
        nic -> !nic.equals(device) && (long) nic.megabits() * SocketHandle.FASTEST < fastest);
    Map<InetAddress, Integer> speeds = new LinkedHashMap<>();
    rails.forEach(nic -> speeds.putIfAbsent(nic.address(), eighths(nic, fastest)));
    int count = Math.min(speeds.size(), SocketHandle.MAX_ADDRESSES);
    nics.forEach(nic -> speeds.putIfAbsent(nic.address(), eighths(nic, fastest)));
    List<InetAddress> addresses =
        speeds.keySet().stream().limit(SocketHandle.MAX_ADDRESSES).toList();
    return new SocketRails(addresses, addresses.stream().map(speeds::get).toList(), count);
  }

  private static int eighths(Nic nic, int fastest) {
    long eighths = ((long) nic.megabits() * SocketHandle.FASTEST + fastest / 2) / fastest;
    return (int) Math.max(1, Math.min(SocketHandle.FASTEST, eighths));
  }
}
