package org.nccl4j.api.wire;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.ProtocolException;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import java.util.List;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import org.nccl4j.device.support.Patience;

/**
 * Connects sockets to a listener that has several addresses, one socket at a time, each with its
 * {@link Handshake}. An address that fails is followed by the next; all are tried repeatedly until
 * the caller's deadline, unless every address refuses permanently. Never waits; owned by the thread
 * that polls it.
 */
public final class Dialer {
  private final AddressTrials trials;
  private final PendingHandshake.Channels channels;
  private final LongSupplier clock;
  private SocketChannel socket;
  private PendingHandshake pending;
  private int steps;

  /**
   * None has been tried.
   *
   * @param addresses best first
   * @param clock in nanoseconds
   */
  public Dialer(
      List<InetSocketAddress> addresses, PendingHandshake.Channels channels, LongSupplier clock) {
    this(addresses, channels, clock, AddressTrials.FIRST_PATIENCE);
  }

  private Dialer(
      List<InetSocketAddress> addresses,
      PendingHandshake.Channels channels,
      LongSupplier clock,
      long patience) {
    this.trials = new AddressTrials(addresses, patience);
    this.channels = channels;
    this.clock = clock;
  }

  /**
   * Creates a dialer that tries all addresses in half of some time, also if none answers.
   *
   * @param bound the time; an address does not get more of it than usual
   * @param clock in nanoseconds
   */
  public static Dialer within(
      Duration bound,
      List<InetSocketAddress> addresses,
      PendingHandshake.Channels channels,
      LongSupplier clock) {
    long each = Patience.nanos(bound) / 2 / addresses.size();
    return new Dialer(addresses, channels, clock, Math.min(each, AddressTrials.FIRST_PATIENCE));
  }

  /**
   * Takes the next steps of the current attempt.
   *
   * @param handshake makes this side of an attempt
   * @return the connected socket once both sides know each other, else null; to be {@link #take
   *     taken} before the next is dialled
   * @throws IOException if the attempt has failed; then call {@link #failed}
   */
  public PendingHandshake poll(Supplier<Handshake> handshake) throws IOException {
    if (socket == null) {
      if (!trials.mayBegin(clock.getAsLong())) {
        return null;
      }
      trials.begin(clock.getAsLong());
      socket = SocketChannel.open();
      socket.configureBlocking(false);
      AddressTrials.connect(socket, trials.current());
    }
    // Check the answer before the clock: this thread may have been stopped for a long time.
    if (advance(handshake)) {
      return pending;
    }
    int reached = pending == null ? 0 : 1 + pending.steps();
    if (reached > steps) {
      steps = reached;
      trials.progressed(clock.getAsLong());
    } else if (trials.isLate(clock.getAsLong()) && !isProving()) {
      throw trials.late();
    }
    return null;
  }

  private boolean advance(Supplier<Handshake> handshake) throws IOException {
    if (pending == null) {
      if (!socket.finishConnect()) {
        return false;
      }
      pending = new PendingHandshake(socket, channels, handshake.get());
    }
    try {
      return pending.poll();
    } catch (ProtocolException e) {
      throw e;
    } catch (IOException e) {
      throw isProving() ? turnedAway(e) : e;
    }
  }

  /** An error that no further attempt at the same address follows. */
  private static IOException turnedAway(IOException reason) {
    return new IOException(
        "it does not await this connection, or has another secret: " + Sockets.reason(reason),
        reason);
  }

  /** The other side may have let this socket in already, so another would find no place. */
  private boolean isProving() {
    return pending != null && pending.handshake().proving();
  }

  /** The socket is the caller's from now on. */
  public SocketChannel take() {
    SocketChannel taken = socket;
    forget();
    return taken;
  }

  /**
   * Closes the current attempt, which has failed. One that was let go is soon made again at the
   * same address: it may have been crowded out.
   *
   * @return whether another address comes next, or all of them once more
   */
  public boolean failed(IOException failure) {
    close();
    return trials.failed(failure, Sockets.reason(failure), clock.getAsLong());
  }

  /** The address to try, or being tried. */
  public InetSocketAddress current() {
    return trials.current();
  }

  /** The place of {@link #current} among the addresses. */
  public int index() {
    return trials.index();
  }

  /** True if the current address has accepted the connection. */
  public boolean isAnswered() {
    return pending != null;
  }

  /** True if every address has been tried and none will ever do. */
  public boolean isHopeless() {
    return trials.areHopeless();
  }

  /** True if no address has been tried twice. */
  public boolean isFirstRound() {
    return trials.rounds() == 0 || trials.rounds() == 1 && trials.index() == 0;
  }

  /** Returns the next step after a failure, as the end of a sentence that begins with "trying". */
  public String next() {
    return trials.index() == 0 ? "again until the deadline" : Sockets.text(trials.current());
  }

  /** Returns the failures of the addresses that have been tried; empty if none has failed. */
  public String failures() {
    return trials.failures();
  }

  /** Returns the dialer's state, for messages. */
  @Override
  public String toString() {
    String failures = trials.failures();
    return Sockets.text(trials.current())
        + (failures.isEmpty()
            ? ""
            : ", after %s; look whether a firewall keeps TCP from these ports".formatted(failures));
  }

  /** Closes the current attempt's socket, if there is one that is not taken. */
  public void close() {
    Sockets.close(socket);
    forget();
  }

  private void forget() {
    socket = null;
    pending = null;
    steps = 0;
  }
}
