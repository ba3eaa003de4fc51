package org.nccl4j.transport.net.socket;

import java.util.Locale;
import java.util.Optional;
import org.nccl4j.api.spi.NetContext;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;

/**
 * What a user can set about sockets.
 *
 * @param interfaces which interfaces, in the syntax of NCCL_SOCKET_IFNAME; empty for a choice
 * @param family AF_INET, AF_INET6, or empty for either
 * @param firstPort the lowest port to listen on; 0 for any
 * @param lastPort the highest
 * @param threads helper threads a connection; empty for a choice by the interface
 * @param socksPerThread sockets that each of them serves; empty likewise
 */
record SocketSettings(
    String interfaces,
    String family,
    int firstPort,
    int lastPort,
    Optional<Integer> threads,
    Optional<Integer> socksPerThread) {
  static final int MAX_THREADS = 16;
  static final int MAX_SOCKETS = 64;

  private static final String PORTS = "NCCL4J_BOOTSTRAP_PORTS";

  static SocketSettings of(NetContext context) {
    String ports = context.setting(PORTS).orElse("0").trim();
    int dash = ports.indexOf('-');
    int first = number(PORTS, dash < 0 ? ports : ports.substring(0, dash), 65535);
    int last = dash < 0 ? first : number(PORTS, ports.substring(dash + 1), 65535);
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
        context.setting("NCCL_SOCKET_IFNAME").orElse("").trim(),
        context.setting("NCCL_SOCKET_FAMILY").orElse("").trim().toUpperCase(Locale.ROOT),
        first,
        last,
        threads,
        socks);
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
