package org.nccl4j.api.bootstrap;

import java.net.InetAddress;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.nccl4j.api.settings.ScaleSettings;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.settings.TlsSettings;
import org.nccl4j.api.wire.InterfaceFilter;
import org.nccl4j.api.wire.Interfaces;
import org.nccl4j.api.wire.PortRange;
import org.nccl4j.api.wire.tls.TlsFiles;

/**
 * The user's settings of the bootstrap's sockets.
 *
 * @param commId host:port of the root that rank 0 starts; empty for a new one each time
 * @param commSecret secret of the ranks that use commId; may be empty
 * @param interfaces which network interfaces may be used, in the syntax of NCCL_SOCKET_IFNAME;
 *     empty for a choice
 * @param family AF_INET, AF_INET6, or empty for either
 * @param ports which ports may be listened on
 * @param silence after which a process without heartbeats counts as failed
 * @param stagger limits the ranks that contact a root at once
 * @param tls certificates with which ranks authenticate each other besides the secret
 * @param observable whether a root that is started answers observers while the communicator lives
 */
public record BootstrapOptions(
    String commId,
    String commSecret,
    String interfaces,
    String family,
    PortRange ports,
    Duration silence,
    Stagger stagger,
    TlsFiles tls,
    boolean observable) {

  /** So many of IPv6 and loopback leave room in an id. */
  private static final int MOST_ADDRESSES = 4;

  /**
   * Spreads the ranks of a large communicator over time: each waits a little before it connects to
   * its root.
   *
   * @param rate of ranks a second that contact a root
   * @param threshold number of ranks up to which no rank waits
   */
  public record Stagger(int rate, int threshold) {
    /**
     * Returns the time that a rank waits.
     *
     * @param place the rank's among those of its root
     */
    Duration delay(int place, int nRanks) {
      return nRanks <= threshold ? Duration.ZERO : Duration.ofNanos(place * 1_000_000_000L / rate);
    }
  }

  /** These, for another NCCL_COMM_ID. */
  BootstrapOptions withCommId(String other) {
    return new BootstrapOptions(
        other, commSecret, interfaces, family, ports, silence, stagger, tls, observable);
  }

  /** These, of ranks that know each other already; observers do not know the new secret. */
  BootstrapOptions withoutCommId() {
    return new BootstrapOptions("", "", interfaces, family, ports, silence, stagger, tls, false);
  }

  /** Returns the filter of interfaces that may be used. */
  InterfaceFilter interfaceFilter() {
    return new InterfaceFilter(interfaces, family);
  }

  /** This host's addresses, so many that there is room for them in an id; never empty. */
  List<InetAddress> addresses() {
    return Interfaces.find(interfaceFilter()).addresses(MOST_ADDRESSES);
  }

  /** Nothing set. */
  public static BootstrapOptions defaults() {
    return from(Settings.alone(Map.of()));
  }

  /** Returns the options that a communicator's settings give. */
  public static BootstrapOptions from(Settings settings) {
    return new BootstrapOptions(
        settings.get(Settings.NCCL_COMM_ID),
        settings.get(Settings.NCCL4J_COMM_SECRET),
        settings.get(Settings.NCCL_SOCKET_IFNAME),
        settings.get(Settings.NCCL_SOCKET_FAMILY),
        settings.get(Settings.NCCL4J_BOOTSTRAP_PORTS),
        settings.get(Settings.NCCL4J_HEARTBEAT_TIMEOUT),
        new Stagger(
            settings.get(ScaleSettings.NCCL_UID_STAGGER_RATE),
            settings.get(ScaleSettings.NCCL_UID_STAGGER_THRESHOLD)),
        TlsSettings.files(settings),
        settings.get(ScaleSettings.NCCL4J_JOB_STATE)
            || !settings.get(ScaleSettings.NCCL4J_JOB_HTTP).isOff());
  }

  @Override
  public String toString() {
    return "BootstrapOptions[commId=%s, interfaces=%s, family=%s, ports=%s]"
        .formatted(commId, interfaces, family, ports);
  }
}
