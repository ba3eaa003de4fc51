package org.nccl4j.transport.net.socket;

import java.util.Optional;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.spi.NetContext;
import org.nccl4j.api.wire.InterfaceFilter;
import org.nccl4j.api.wire.PortRange;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;

/**
 * The user's options for sockets.
 *
 * @param interfaces which interfaces
 * @param ports which ports may be listened on
 * @param threads helper threads a connection; empty for a choice by the interface
 * @param socksPerThread sockets that each of them serves; empty likewise
 */
record SocketSettings(
    InterfaceFilter interfaces,
    PortRange ports,
    Optional<Integer> threads,
    Optional<Integer> socksPerThread) {
  static final int MAX_SOCKETS = 64;

  static SocketSettings of(NetContext context) {
    Optional<Integer> threads = context.find(Settings.NCCL_SOCKET_NTHREADS);
    Optional<Integer> socks = context.find(Settings.NCCL_NSOCKS_PERTHREAD);
    if (threads.orElse(1) * socks.orElse(1) > MAX_SOCKETS) {
      throw new InvalidArgumentException(
          ErrorId.SETTING,
          "NCCL_SOCKET_NTHREADS=%d and NCCL_NSOCKS_PERTHREAD=%d make more than %d sockets"
              .formatted(threads.orElse(1), socks.orElse(1), MAX_SOCKETS),
          "set them so that their product is at most " + MAX_SOCKETS);
    }
    return new SocketSettings(
        new InterfaceFilter(
            context.get(Settings.NCCL_SOCKET_IFNAME), context.get(Settings.NCCL_SOCKET_FAMILY)),
        context.get(Settings.NCCL4J_BOOTSTRAP_PORTS),
        threads,
        socks);
  }
}
