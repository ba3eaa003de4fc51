package org.nccl4j.api.bootstrap;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.channels.ServerSocketChannel;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import org.nccl4j.api.bootstrap.root.ProcessIdentity;
import org.nccl4j.api.bootstrap.root.RootService;
import org.nccl4j.api.wire.ListeningSocket;
import org.nccl4j.api.wire.PortRange;
import org.nccl4j.api.wire.tls.PeerCredentials;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.os.KernelRandom;

/** Creates unique ids, and starts their bootstrap roots. */
public final class BootstrapRoot {
  private static final int NO_PORT = -1;

  private BootstrapRoot() {}

  /**
   * A new id. Without NCCL_COMM_ID a root listens in this process from now on: until the
   * communicator has been made and all its ranks have left, or creating it has failed, or nobody
   * has come for the given time. With it, the id follows from the setting and rank 0 starts the
   * root when it joins.
   *
   * @param patience how long to wait for the first rank
   * @throws org.nccl4j.device.SystemErrorException if no socket can be opened
   */
  public static BootstrapId create(BootstrapOptions options, Duration patience) {
    if (!options.commId().isEmpty()) {
      return fromCommId(options, "NCCL_COMM_ID is");
    }
    return create(options, patience, KernelRandom.bytes(BootstrapId.SECRET_BYTES));
  }

  /** A new id with a secret, and a root listening in this process. */
  static BootstrapId create(BootstrapOptions options, Duration patience, byte[] secret) {
    PeerCredentials trust = PeerCredentials.of(secret, options.tls());
    List<InetAddress> hosts = options.addresses();
    boolean oneAlone = hosts.size() == 1 && !options.interfaces().isBlank();
    ServerSocketChannel socket =
        ListeningSocket.open("the bootstrap", oneAlone ? hosts.get(0) : null, options.ports());
    int port = ListeningSocket.port(socket);
    List<InetSocketAddress> addresses = new ArrayList<>();
    for (InetAddress host : hosts) {
      addresses.add(new InetSocketAddress(host, port));
    }
    BootstrapId id = new BootstrapId(false, addresses, secret);
    RootService.start(
        socket, trust, ProcessIdentity.ofThisProcess(), patience, options.observable());
    return id;
  }

  /**
   * Starts the root of an id whose first rank starts it.
   *
   * @param host address to listen on, see {@link #listening}
   */
  static void startForFirstRank(
      InetAddress host,
      int number,
      PeerCredentials trust,
      ProcessIdentity self,
      Duration patience,
      boolean observable) {
    PortRange port = new PortRange(number, number);
    ServerSocketChannel socket = ListeningSocket.open("the bootstrap", host, port);
    RootService.start(socket, trust, self, patience, observable);
  }

  /**
   * Returns the address on which a root listens; null for all of the host. A host's own name may
   * stand for a loopback address on that host alone (Debian's 127.0.1.1), and a name that stands
   * for several addresses may lead other hosts to any of them.
   */
  static InetAddress listening(String name, List<InetSocketAddress> resolved) {
    InetAddress first = resolved.get(0).getAddress();
    if (isLiteral(name) || isLocalhost(name)) {
      return first;
    }
    return resolved.size() > 1 || first.isLoopbackAddress() ? null : first;
  }

  private static boolean isLiteral(String name) {
    return name.indexOf(':') >= 0 || name.matches("[0-9.]+");
  }

  private static boolean isLocalhost(String name) {
    String lower = name.toLowerCase(Locale.ROOT);
    return lower.equals("localhost")
        || lower.startsWith("localhost.")
        || lower.endsWith(".localhost")
        || lower.startsWith("ip6-localhost")
        || lower.startsWith("ip6-loopback");
  }

  /**
   * The id of a job that runs: a unique id's text, or the job's NCCL_COMM_ID, letter by letter,
   * with its secret in the options.
   *
   * @throws InvalidArgumentException if it is neither
   */
  public static BootstrapId ofJob(String job, BootstrapOptions options) {
    if (job.indexOf(':') >= 0) {
      return fromCommId(options.withCommId(job), "the job is");
    }
    try {
      return BootstrapId.decode(HexFormat.of().parseHex(job));
    } catch (IllegalArgumentException e) {
      throw new InvalidArgumentException(
          ErrorId.UNIQUE_ID,
          "\"" + job + "\" names no job: it is neither a unique id nor host:port",
          "pass the text of the job's unique id (UniqueId.toString()), or its NCCL_COMM_ID",
          e);
    }
  }

  private static BootstrapId fromCommId(BootstrapOptions options, String subject) {
    String text = options.commId();
    int colon = text.lastIndexOf(':');
    int port = colon < 1 ? NO_PORT : portOf(text.substring(colon + 1));
    if (port == NO_PORT) {
      boolean isNumber = colon >= 1 && text.substring(colon + 1).trim().matches("[0-9]+");
      throw new InvalidArgumentException(
          ErrorId.SETTING,
          isNumber
              ? "%s \"%s\", whose port is not within 1 to 65535".formatted(subject, text)
              : "%s \"%s\", which is not host:port".formatted(subject, text),
          "set it to an address or name of rank 0's host and a free port, such as 10.0.0.1:29500"
              + " or [fd00::1]:29500");
    }
    String host = text.substring(0, colon);
    if (host.startsWith("[") && host.endsWith("]")) {
      host = host.substring(1, host.length() - 1);
    }
    byte[] secret = derived(text + "\n" + options.commSecret());
    return new BootstrapId(true, List.of(InetSocketAddress.createUnresolved(host, port)), secret);
  }

  private static int portOf(String text) {
    try {
      int port = Integer.parseInt(text.trim());
      return port > 0 && port < 65536 ? port : NO_PORT;
    } catch (NumberFormatException e) {
      return NO_PORT;
    }
  }

  private static byte[] derived(String text) {
    try {
      byte[] hash =
          MessageDigest.getInstance("SHA-256")
              .digest(("nccl4j id\n" + text).getBytes(StandardCharsets.UTF_8));
      return Arrays.copyOf(hash, BootstrapId.SECRET_BYTES);
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("every Java platform has SHA-256", e);
    }
  }
}
