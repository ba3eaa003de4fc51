package org.nccl4j.transport.net.socket;

import java.net.InetAddress;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/**
 * The addresses that a rank's connections have dialled as further rails. One that has failed, and
 * that no connection has reached before, is not dialled by the next. Any thread.
 */
final class RailTrials {
  private final Set<InetAddress> reached = ConcurrentHashMap.newKeySet();
  private final Set<InetAddress> failed = ConcurrentHashMap.newKeySet();

  /** A socket is connected. */
  void reached(InetAddress address) {
    reached.add(address);
  }

  /**
   * An attempt has failed.
   *
   * @return whether it is the address's first
   */
  boolean failed(InetAddress address) {
    return failed.add(address);
  }

  /** True if there is no use in dialling it. */
  boolean areHopeless(InetAddress address) {
    return failed.contains(address) && !reached.contains(address);
  }
}
