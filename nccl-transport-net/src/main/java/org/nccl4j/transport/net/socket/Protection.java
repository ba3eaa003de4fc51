package org.nccl4j.transport.net.socket;

import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.spi.NetContext;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;

/**
 * The protection of a communicator's sockets. All ranks have the same.
 *
 * @param secret that both ends of each socket prove to know
 * @param sums whether each message carries a checksum
 */
record Protection(byte[] secret, boolean sums) {
  static Protection of(NetContext context) {
    return new Protection(
        context.secret(), context.get(Settings.NCCL4J_NET_CHECKSUM).equals("crc32c"));
  }

  /**
   * Returns the error of two ends that differ in checksums.
   *
   * @param where the other end is
   */
  InvalidUsageException differs(String where) {
    String here = sums ? "crc32c" : "none";
    String there = sums ? "none" : "crc32c";
    return new InvalidUsageException(
        ErrorId.SETTINGS_DIFFER,
        "NCCL4J_NET_CHECKSUM is %s on this rank, and %s on the rank at %s"
            .formatted(here, there, where),
        "set NCCL4J_NET_CHECKSUM to the same value on all ranks");
  }
}
