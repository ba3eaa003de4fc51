package org.nccl4j.transport.net.socket;

import java.io.IOException;
import java.lang.System.Logger;
import java.net.InetSocketAddress;
import java.nio.channels.SocketChannel;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.function.LongSupplier;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.transport.net.AddressTrials;

/**
 * Connects the sockets of a connection, one after the other: the first to the first address that
 * can be reached, the others in turn to the addresses of all rails, as far as these can be reached.
 * It goes on until it is closed, unless every address says no for good. Never waits; owned by who
 * polls it.
 */
final class Dial implements Origin {
  private static final Logger LOG = DebugLog.of("NET");

  /** As a socket's index: it is the only one of both directions. */
  static final int PAIR = 127;

  private final SocketHandle handle;
  private final boolean pair;
  private final byte[] secret;
  private final LongSupplier clock;
  private final SocketChannel[] sockets;
  private final AddressTrials trials;

  /** Rails that cannot be reached, by the index of their address. */
  private final Set<Integer> cut = new HashSet<>();

  /** Those of the current socket, if it goes to another rail; else null. */
  private AddressTrials railTrials;

  private int index;
  private SocketChannel channel;
  private Acquaintance who;
  private int steps;

  /**
   * Sockets to a listener.
   *
   * @param pair whether for both directions
   */
  Dial(SocketHandle handle, byte[] secret, boolean pair) {
    this(handle, secret, pair, System::nanoTime);
  }

  /** As above, with a clock in nanoseconds. */
  Dial(SocketHandle handle, byte[] secret, boolean pair, LongSupplier clock) {
    this.handle = handle;
    this.pair = pair;
    this.secret = secret;
    this.clock = clock;
    this.sockets = new SocketChannel[1 + handle.lanes()];
    this.trials = new AddressTrials(handle.where());
  }

  @Override
  public SocketChannel[] poll() {
    while (index < sockets.length) {
      AddressTrials current = current();
      if (channel == null && !current.mayBegin(clock.getAsLong())) {
        return null;
      }
      try {
        if (!connected(current)) {
          return null;
        }
        sockets[index++] = channel;
        railTrials = null;
        forgetChannel();
      } catch (IOException e) {
        reject(current, e);
      }
    }
    return sockets;
  }

  private boolean connected(AddressTrials current) throws IOException {
    if (channel == null) {
      current.begin(clock.getAsLong());
      channel = SocketChannel.open();
      channel.configureBlocking(false);
      AddressTrials.connect(channel, current.current());
    }
    // First the answer, then the clock: this thread may not have looked for long.
    if (advance()) {
      return true;
    }
    int reached = who == null ? 0 : 1 + who.steps();
    if (reached > steps) {
      steps = reached;
      current.progressed(clock.getAsLong());
    } else if (current.isLate(clock.getAsLong()) && !isProving()) {
      throw current.late();
    }
    return false;
  }

  private boolean advance() throws IOException {
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

  /** The other side may have let this socket in already, so another would find no place. */
  private boolean isProving() {
    return who != null && who.greeting().isProving();
  }

  /** Which address the current socket goes to. */
  private int rail() {
    int address = trials.index();
    if (index == 0 || address >= handle.rails()) {
      return address;
    }
    int rail = (address + index - 1) % handle.rails();
    return cut.contains(rail) ? address : rail;
  }

  private AddressTrials current() {
    if (rail() == trials.index()) {
      return trials;
    }
    if (railTrials == null) {
      railTrials = new AddressTrials(List.of(handle.where().get(rail())));
    }
    return railTrials;
  }

  /** Tries once more, goes on without a rail, or to the next address. */
  private void reject(AddressTrials current, IOException failure) {
    InetSocketAddress tried = current.current();
    String reason = AddressTrials.reason(failure);
    Closing.close(channel);
    forgetChannel();
    if (!current.failed(failure, reason, clock.getAsLong())) {
      return;
    }
    if (current == railTrials) {
      cut.add(rail());
      railTrials = null;
      LOG.log(
          Logger.Level.WARNING,
          "{0} cannot be reached ({1}), so this connection does not use it; NCCL_SOCKET_IFNAME"
              + " leaves out interfaces that do not lead to all hosts",
          AddressTrials.text(tried),
          reason);
      return;
    }
    close();
    index = 0;
    if (trials.areHopeless()) {
      throw new SystemErrorException(
          ErrorId.UNREACHABLE,
          "no address of the other side can be reached: " + trials.failures(),
          "see that the process there still runs, let TCP through the firewall to its ports"
              + " (NCCL4J_BOOTSTRAP_PORTS fixes them), or choose interfaces that lead there with"
              + " NCCL_SOCKET_IFNAME on both hosts");
    }
    boolean first = trials.rounds() == 0 || trials.rounds() == 1 && trials.index() == 0;
    LOG.log(
        first ? Logger.Level.WARNING : Logger.Level.DEBUG,
        "{0} cannot be reached ({1}); trying {2}",
        AddressTrials.text(tried),
        reason,
        trials.index() == 0 ? "again until the deadline" : AddressTrials.text(trials.current()));
  }

  private void forgetChannel() {
    channel = null;
    who = null;
    steps = 0;
  }

  /** Where it is, for messages. */
  @Override
  public String toString() {
    String failures = trials.failures();
    return "connecting to %s%s"
        .formatted(
            AddressTrials.text(trials.current()),
            failures.isEmpty()
                ? ""
                : ", after %s; look whether a firewall keeps TCP from these ports"
                    .formatted(failures));
  }

  @Override
  public void close() {
    Closing.close(channel);
    for (int s = 0; s < index; s++) {
      Closing.close(sockets[s]);
    }
    forgetChannel();
  }
}
