package org.nccl4j.transport.net.ib;

import java.util.ArrayList;
import java.util.List;
import org.nccl4j.device.NcclException;
import org.nccl4j.transport.net.ib.device.IbSettings;
import org.nccl4j.transport.net.ib.device.OpenDevice;

/**
 * The NICs of this host that a connection may use: single ports and merged ones. A merged NIC can
 * be used while all of its ports are up; each of them is a NIC of its own, too.
 *
 * @param all the first is the one that the connection was made at, which it prefers; then its
 *     ports, if it has several; then the others and theirs
 */
record LocalPorts(List<LocalNic> all) {
  /** A bit for each NIC. */
  static final int MOST = Long.SIZE;

  /** The place of the NIC that the connection was made at. */
  static final int HOME = 0;

  LocalPorts {
    all = List.copyOf(all);
  }

  /** The NICs in the order of a connection that is made at one of them. */
  static LocalPorts from(List<LocalNic> nics, int home) {
    List<LocalNic> all = new ArrayList<>();
    for (int i = 0; i < nics.size(); i++) {
      LocalNic nic = nics.get((home + i) % nics.size());
      all.add(nic);
      if (nic.ports().size() > 1) {
        nic.ports().forEach(port -> all.add(LocalNic.of(port)));
      }
    }
    return new LocalPorts(all.subList(0, Math.min(all.size(), MOST)));
  }

  LocalNic get(int index) {
    return all.get(index);
  }

  LocalNic home() {
    return all.get(HOME);
  }

  /** Number of NICs that can take over from one another. */
  int count() {
    return all.size();
  }

  /** True if all ports of a NIC are up now, as their devices say. */
  boolean isActive(IbSettings settings, int index) {
    return down(settings, all.get(index)).isEmpty();
  }

  /** Returns the names of a NIC's ports that are not up. */
  static List<String> down(IbSettings settings, LocalNic nic) {
    return nic.ports().stream()
        .filter(each -> !isActive(settings, each))
        .map(each -> each.port().name())
        .toList();
  }

  private static boolean isActive(IbSettings settings, LocalQpInfo port) {
    try (OpenDevice device = OpenDevice.of(settings, port.port().device())) {
      return device.isActive(port.port().port());
    } catch (NcclException e) {
      return false; // a device that cannot be asked cannot be used
    }
  }

  /** The NICs that are up now, a bit for each. */
  long active(IbSettings settings) {
    long mask = 0;
    for (int i = 0; i < count(); i++) {
      mask |= isActive(settings, i) ? 1L << i : 0;
    }
    return mask;
  }

  /** True if the ports are of several devices, so that one may take over from another. */
  boolean spanDevices() {
    return all.stream().flatMap(nic -> devices(nic).stream()).distinct().count() > 1;
  }

  /** True if a move may have memory registered again: for other devices, or more or fewer ports. */
  boolean moveMemory() {
    return all.stream().map(LocalPorts::devices).distinct().count() > 1;
  }

  private static List<String> devices(LocalNic nic) {
    return nic.ports().stream().map(each -> each.port().device()).toList();
  }
}
