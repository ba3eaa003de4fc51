package org.nccl4j.api.wire;

import java.io.IOException;
import java.net.ConnectException;
import java.net.InetSocketAddress;
import java.net.ProtocolException;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import org.nccl4j.device.support.Patience;

/**
 * The addresses at which another rank can be dialled, with the time and duration of each attempt.
 * An address that fails is followed by the next. All are tried repeatedly, with longer pauses and
 * timeouts, since the other side may be slow, overloaded, or without its network for a while; the
 * dialing thread ends that at its deadline. It ends at once if each address refuses permanently.
 * Time is an argument, in nanoseconds. Owned by the thread that polls.
 */
final class AddressTrials {
  /** Enough for two lost packets. */
  static final long FIRST_PATIENCE = 5_000_000_000L;

  private static final long MOST_PATIENCE = 80_000_000_000L;
  private static final long FIRST_PAUSE = 5_000_000L;
  private static final long MOST_PAUSE = 1_000_000_000L;

  private final List<InetSocketAddress> addresses;

  /** Why the last attempt at each address failed; null where none has. */
  private final String[] reasons;

  private final boolean[] forGood;
  private int at;
  private int rounds;
  private long patience;
  private long pause = FIRST_PAUSE;
  private boolean pausing;
  private long pauseEnd;
  private boolean underWay;
  private long firstAttempt;
  private long lateFrom;

  /**
   * None has been tried.
   *
   * @param patience time for the first answer of each address in the first round
   */
  AddressTrials(List<InetSocketAddress> addresses, long patience) {
    this.addresses = List.copyOf(addresses);
    this.patience = patience;
    this.reasons = new String[addresses.size()];
    this.forGood = new boolean[addresses.size()];
  }

  /** The address to try, or being tried. */
  InetSocketAddress current() {
    return addresses.get(at);
  }

  /** Returns the current address's index. */
  int index() {
    return at;
  }

  /** Returns how many times all addresses have been tried. */
  int rounds() {
    return rounds;
  }

  /** True if an attempt may begin. */
  boolean mayBegin(long now) {
    return !pausing || now - pauseEnd >= 0;
  }

  /** An attempt begins. */
  void begin(long now) {
    if (!underWay) {
      underWay = true;
      firstAttempt = now;
    }
    pausing = false;
    lateFrom = now + patience;
  }

  /** The other side has answered something: it has as long again for the next step. */
  void progressed(long now) {
    lateFrom = now + patience;
  }

  /** True if the answer has taken too long; to be asked after having looked for it. */
  boolean isLate(long now) {
    return now - lateFrom > 0;
  }

  /** Returns the error of an attempt that takes too long. */
  IOException late() {
    return new IOException("no answer within " + Patience.text(Duration.ofNanos(patience)));
  }

  /**
   * An attempt failed. The same address is soon tried again if the peer closed the connection: it
   * may have had too many.
   *
   * @return whether another address comes next, or all of them once more
   */
  boolean failed(IOException reason, String text, long now) {
    reasons[at] = text;
    forGood[at] = isForGood(reason);
    boolean again = isLetGo(reason) && now - firstAttempt < patience;
    if (!again) {
      underWay = false;
      at++;
    }
    boolean round = at == addresses.size();
    if (round) {
      at = 0;
      rounds++;
      patience = Math.min(2 * patience, MOST_PATIENCE);
    }
    if (again || round) {
      pausing = true;
      pauseEnd = now + pause / 2 + ThreadLocalRandom.current().nextLong(pause);
      pause = Math.min(2 * pause, MOST_PAUSE);
    }
    return !again;
  }

  /** True if every address has been tried and none will ever do. */
  boolean areHopeless() {
    for (boolean each : forGood) {
      if (!each) {
        return false;
      }
    }
    return true;
  }

  /**
   * Returns the failures of the addresses that have been tried, for messages; empty if none has
   * failed.
   */
  String failures() {
    List<String> all = new ArrayList<>();
    for (int a = 0; a < reasons.length; a++) {
      if (reasons[a] != null) {
        all.add("%s (%s)".formatted(Sockets.text(addresses.get(a)), reasons[a]));
      }
    }
    return String.join(", ", all);
  }

  /**
   * Begins to connect a channel.
   *
   * @throws IOException also if this Java cannot reach such an address
   */
  static void connect(SocketChannel channel, InetSocketAddress to) throws IOException {
    try {
      channel.connect(to);
    } catch (IllegalArgumentException e) {
      // For example an IPv6 address, with java.net.preferIPv4Stack set.
      ProtocolException impossible =
          new ProtocolException("this JVM cannot connect to such an address: " + e);
      impossible.initCause(e);
      throw impossible;
    }
  }

  private static boolean isForGood(IOException reason) {
    boolean refused =
        reason instanceof ConnectException
            && String.valueOf(reason.getMessage()).contains("refused");
    boolean differs =
        reason instanceof ProtocolException && !(reason instanceof UnfinishedTlsException);
    return refused || differs;
  }

  private static boolean isLetGo(IOException reason) {
    String text = String.valueOf(reason.getMessage());
    return reason instanceof ClosedChannelException
        || reason instanceof UnfinishedTlsException
        || text.contains("reset")
        || text.contains("Broken pipe");
  }
}
