package org.nccl4j.transport.net.ib;

import java.util.List;
import org.nccl4j.device.NcclException;
import org.nccl4j.transport.net.ib.device.IbSettings;
import org.nccl4j.transport.net.ib.device.OpenDevice;

/**
 * The ports of this host that a connection may use.
 *
 * @param all in the same order for all connections of a communicator
 * @param home the place of the port that the connection was made at, which it prefers
 */
record LocalPorts(List<LocalQpInfo> all, int home) {
  /** A bit for each port. */
  static final int MOST = Long.SIZE;

  LocalPorts {
    all = List.copyOf(all);
  }

  LocalQpInfo get(int index) {
    return all.get(index);
  }

  /** Number of ports that can take over from one another. */
  int count() {
    return Math.min(all.size(), MOST);
  }

  /** True if a port is up now, as its device says. */
  boolean isActive(IbSettings settings, int index) {
    String name = all.get(index).port().device();
    try (OpenDevice device = OpenDevice.of(settings, name)) {
      return device.isActive(all.get(index).port().port());
    } catch (NcclException e) {
      return false; // a device that cannot be asked cannot be used
    }
  }

  /** The ports that are up now, a bit for each. */
  long active(IbSettings settings) {
    long mask = 0;
    for (int i = 0; i < count(); i++) {
      mask |= isActive(settings, i) ? 1L << i : 0;
    }
    return mask;
  }

  /** True if messages may be in memory that several devices must know. */
  boolean spanDevices() {
    return all.stream().map(each -> each.port().device()).distinct().count() > 1;
  }
}
