package org.nccl4j.transport.net.socket;

import java.io.IOException;
import java.lang.System.Logger;
import java.net.InetSocketAddress;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.SystemErrorException;

/**
 * Connects the sockets of a connection, one after the other: the first to the first address that
 * can be reached, the others in turn to the addresses of all rails, as far as these can be reached.
 * Never waits; owned by who polls it.
 */
final class Dial implements Origin {
  private static final Logger LOG = DebugLog.of("NET");

  /** Enough for two lost packets; then the next address is tried. */
  private static final Duration PATIENCE = Duration.ofSeconds(5);

  /** As a socket's index: it is the only one of both directions. */
  static final int PAIR = 127;

  private final SocketHandle handle;
  private final boolean pair;
  private final byte[] secret;
  private final SocketChannel[] sockets;
  private final List<String> rejected = new ArrayList<>();

  /** Rails that cannot be reached, by the index of their address. */
  private final Set<Integer> cut = new HashSet<>();

  private int address;
  private int index;
  private SocketChannel channel;
  private Acquaintance who;
  private long until;

  /**
   * Sockets to a listener.
   *
   * @param pair whether for both directions
   */
  Dial(SocketHandle handle, byte[] secret, boolean pair) {
    this.handle = handle;
    this.pair = pair;
    this.secret = secret;
    this.sockets = new SocketChannel[1 + handle.lanes()];
  }

  @Override
  public SocketChannel[] poll() {
    while (index < sockets.length) {
      try {
        if (!connected()) {
          return null;
        }
        sockets[index++] = channel;
        channel = null;
        who = null;
      } catch (IOException e) {
        reject(Acquaintance.reason(e));
      }
    }
    return sockets;
  }

  private boolean connected() throws IOException {
    if (channel == null) {
      channel = SocketChannel.open();
      until = System.nanoTime() + PATIENCE.toNanos();
      channel.configureBlocking(false);
      channel.connect(where());
    }
    if (System.nanoTime() - until > 0) {
      throw new IOException("no answer within " + PATIENCE.toSeconds() + " s");
    }
    if (who == null) {
      if (!channel.finishConnect()) {
        return false;
      }
      who =
          new Acquaintance(
              channel,
              Greeting.client(secret, handle.token(), pair ? PAIR : index, sockets.length));
    }
    return who.poll();
  }

  private InetSocketAddress where() {
    return handle.where().get(rail());
  }

  /** Which address the current socket goes to. */
  private int rail() {
    if (index == 0 || address >= handle.rails()) {
      return address;
    }
    int rail = (address + index - 1) % handle.rails();
    return cut.contains(rail) ? address : rail;
  }

  /** Goes on without a rail, or to the next address. */
  private void reject(String reason) {
    String place = where().getAddress().getHostAddress() + ":" + where().getPort();
    if (rail() != address) {
      cut.add(rail());
      Closing.close(channel);
      channel = null;
      who = null;
      LOG.log(
          Logger.Level.WARNING,
          "{0} cannot be reached ({1}), so this connection does not use it; NCCL_SOCKET_IFNAME"
              + " leaves out interfaces that do not lead to all hosts",
          place,
          reason);
      return;
    }
    rejected.add("%s (%s)".formatted(place, reason));
    close();
    index = 0;
    address++;
    if (address == handle.addresses().size()) {
      throw new SystemErrorException(
          ErrorId.UNREACHABLE,
          "no address of the other side can be reached: " + String.join(", ", rejected),
          "let TCP through the firewall to its ports (NCCL4J_BOOTSTRAP_PORTS fixes them), or choose"
              + " interfaces that lead there with NCCL_SOCKET_IFNAME on both hosts");
    }
    LOG.log(
        Logger.Level.WARNING,
        "{0} cannot be reached ({1}); trying {2}",
        place,
        reason,
        where().getAddress().getHostAddress());
  }

  /** Where it is, for messages. */
  @Override
  public String toString() {
    return "connecting to %s%s"
        .formatted(where(), rejected.isEmpty() ? "" : ", after " + String.join(", ", rejected));
  }

  @Override
  public void close() {
    Closing.close(channel);
    for (int s = 0; s < index; s++) {
      Closing.close(sockets[s]);
    }
    channel = null;
    who = null;
  }
}
