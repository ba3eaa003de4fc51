package org.nccl4j.transport.net.socket;

import java.util.Optional;
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
  static final int MAX_THREADS = 16;
  static final int MAX_SOCKETS = 64;

  static SocketSettings of(NetContext context) {
    Optional<Integer> threads = number(context, "NCCL_SOCKET_NTHREADS", MAX_THREADS);
    Optional<Integer> socks = number(context, "NCCL_NSOCKS_PERTHREAD", MAX_SOCKETS);
    if (threads.orElse(1) * socks.orElse(1) > MAX_SOCKETS) {
      throw new InvalidArgumentException(
          ErrorId.SETTING,
          "NCCL_SOCKET_NTHREADS=%d and NCCL_NSOCKS_PERTHREAD=%d make more than %d sockets"
              .formatted(threads.orElse(1), socks.orElse(1), MAX_SOCKETS),
          "set them so that their product is at most " + MAX_SOCKETS);
    }
    return new SocketSettings(
        InterfaceFilter.of(context::setting), PortRange.of(context::setting), threads, socks);
  }

  private static Optional<Integer> number(NetContext context, String name, int most) {
    return context.setting(name).map(text -> number(name, text, most));
  }

  private static int number(String name, String text, int most) {
    try {
      int value = Integer.parseInt(text.trim());
      if (value >= 0 && value <= most) {
        return value;
      }
      throw new NumberFormatException(value + " is out of range");
    } catch (NumberFormatException e) {
      throw new InvalidArgumentException(
          ErrorId.SETTING,
          "the setting %s is \"%s\"".formatted(name, text),
          "set it to a number from 0 to " + most,
          e);
    }
  }
}
