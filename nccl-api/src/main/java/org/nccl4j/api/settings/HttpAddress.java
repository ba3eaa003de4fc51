package org.nccl4j.api.settings;

import java.net.Inet6Address;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.NetworkInterface;
import java.net.SocketException;
import java.net.UnknownHostException;
import java.util.Comparator;
import java.util.function.Function;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;

/**
 * An address to serve HTTP at, as a setting has it.
 *
 * @param host an interface or an address; empty for the loopback address
 * @param port 0 for any that is free; -1 for no server
 */
public record HttpAddress(String host, int port) {
  /** No server. */
  public static final HttpAddress OFF = new HttpAddress("", -1);

  private static final int MOST = 65535;

  /** The parser of the setting. */
  record Parser() implements Function<String, HttpAddress> {
    @Override
    public HttpAddress apply(String text) {
      return parse(text);
    }
  }

  /**
   * Parses "port" and "host:port".
   *
   * @throws IllegalArgumentException for other texts
   */
  static HttpAddress parse(String text) {
    if (text.isEmpty()) {
      return OFF;
    }
    int colon = text.lastIndexOf(':');
    int port = Integer.parseInt(text.substring(colon + 1));
    if (port < 0 || port > MOST || colon == 0) {
      throw new IllegalArgumentException("no port, or nothing before it");
    }
    String host = colon < 0 ? "" : text.substring(0, colon);
    boolean bracketed = host.startsWith("[") && host.endsWith("]");
    return new HttpAddress(bracketed ? host.substring(1, host.length() - 1) : host, port);
  }

  /** True if there is to be no server. */
  public boolean isOff() {
    return port < 0;
  }

  /**
   * The address of the interface, or of the host.
   *
   * @throws InvalidArgumentException if there is none of that name
   */
  public InetSocketAddress resolve() {
    try {
      if (host.isEmpty()) {
        return new InetSocketAddress(InetAddress.getLoopbackAddress(), port);
      }
      NetworkInterface card = NetworkInterface.getByName(host);
      InetAddress address = card == null ? InetAddress.getByName(host) : addressOf(card);
      return new InetSocketAddress(address, port);
    } catch (SocketException | UnknownHostException e) {
      throw new InvalidArgumentException(
          ErrorId.SETTING,
          "NCCL4J_JOB_HTTP=%s names no interface or address of this host (%s)"
              .formatted(this, e.getMessage()),
          "write a port alone for the loopback address, or an interface or address before it, such"
              + " as eth0:9465",
          e);
    }
  }

  /** The first address of IPv4, or else of IPv6. */
  private static InetAddress addressOf(NetworkInterface card) throws SocketException {
    return card.inetAddresses()
        .min(Comparator.comparing(each -> each instanceof Inet6Address))
        .orElseThrow(() -> new SocketException("it has no address"));
  }

  @Override
  public String toString() {
    return isOff()
        ? ""
        : host.isEmpty()
            ? Integer.toString(port)
            : (host.contains(":") ? "[" + host + "]" : host) + ":" + port;
  }
}
