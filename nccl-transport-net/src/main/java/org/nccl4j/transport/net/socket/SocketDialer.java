package org.nccl4j.transport.net.socket;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.function.LongSupplier;
import org.nccl4j.api.wire.DataChannel;
import org.nccl4j.api.wire.Dialer;
import org.nccl4j.api.wire.Handshake;
import org.nccl4j.api.wire.PendingHandshake;
import org.nccl4j.api.wire.Sockets;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.transport.net.socket.link.SocketLink;
import org.nccl4j.transport.net.socket.link.SocketSource;
import org.nccl4j.transport.net.socket.link.SocketWatch;
import org.nccl4j.transport.net.socket.link.SpareSockets;
import org.nccl4j.transport.net.socket.silence.SpareDialer;

/**
 * Connects the sockets of a connection, one after the other: the first to the first address that
 * can be reached, the others in turn to the addresses of all rails, as far as these can be reached.
 * It goes on until it is closed, unless every address says no for good. Never waits; owned by the
 * thread that polls it.
 */
final class SocketDialer implements SocketSource, SpareSockets {
  private static final System.Logger LOG = DebugLog.of("NET");

  /** Socket index of the only socket of both directions. */
  static final int PAIR = 127;

  /** Socket index by which the listener learns that the dialing side differs in TLS. */
  static final int DIFFERS = 126;

  private final SocketHandle handle;
  private final boolean pair;
  private final Protection protection;
  private final LongSupplier clock;
  private final DataChannel[] sockets;

  /** By place: the number of the address that the socket was dialled to first. */
  private final int[] dialled;

  private final Dialer dialer;

  /** Rails that cannot be reached, by the index of their address. */
  private final Set<Integer> cut = new HashSet<>();

  /** Dialer of the current socket, if it goes to another rail; else null. */
  private Dialer railDialer;

  private int index;

  /** Dialers of sockets that take over from broken ones; null for others. */
  private final Dialer[] further;

  /** By place: the socket that came of {@link #next} last and has not taken over; null for none. */
  private final DataChannel[] given;

  private final SocketWatch watch;
  private final RailTrials rails;
  private final SpareDialer[] spare;
  private SocketLink link;

  /**
   * Sockets to a listener.
   *
   * @param pair whether for both directions
   * @param rails of the rank's connections
   */
  SocketDialer(
      SocketHandle handle,
      Protection protection,
      boolean pair,
      SocketWatch watch,
      RailTrials rails) {
    this(handle, protection, pair, watch, rails, System::nanoTime);
  }

  /** Creates a dialer as the other constructor does, with a clock in nanoseconds. */
  SocketDialer(
      SocketHandle handle,
      Protection protection,
      boolean pair,
      SocketWatch watch,
      RailTrials rails,
      LongSupplier clock) {
    this.handle = handle;
    this.pair = pair;
    this.protection = protection;
    this.watch = watch;
    this.rails = rails;
    this.clock = clock;
    this.sockets = new DataChannel[1 + handle.lanes()];
    this.dialled = new int[sockets.length];
    this.further = new Dialer[sockets.length];
    this.given = new DataChannel[sockets.length];
    this.dialer = dialer(handle.where());
    this.spare = new SpareDialer[sockets.length];
    for (int place = 0; place < spare.length; place++) {
      spare[place] = spare(place);
    }
  }

  private SpareDialer spare(int place) {
    return new SpareDialer(
        handle.where(),
        this::replacing,
        () -> handshake(place, true),
        Protection::bytes,
        watch.silence(),
        clock);
  }

  private Dialer dialer(List<InetSocketAddress> addresses) {
    return new Dialer(
        addresses, protection.channels(handle.encrypted(), /* dialed= */ true), clock);
  }

  /** A dialer for sockets in place of others; of many addresses, all but one may be dead. */
  private Dialer replacing(List<InetSocketAddress> addresses) {
    return Dialer.within(
        watch.bound(),
        addresses,
        protection.channels(handle.encrypted(), /* dialed= */ true),
        clock);
  }

  @Override
  public SocketLink poll() {
    while (index < sockets.length) {
      leaveHopelessRail();
      Dialer current = current();
      try {
        PendingHandshake proved = current.poll(this::handshake);
        if (proved == null) {
          return null;
        }
        InetSocketAddress reached = current.current();
        dialled[index] = rail();
        if (current == railDialer) {
          rails.reached(reached.getAddress());
        }
        sockets[index++] = taken(current, proved);
        railDialer = null;
        checkSettings(reached);
      } catch (IOException e) {
        reject(current, e);
      }
    }
    if (link == null) {
      link = new SocketLink(sockets, this, watch, protection.sums());
    }
    return link;
  }

  @Override
  public int[] shares() {
    return handle.shares(dialled);
  }

  @Override
  public boolean isOffered(int place) {
    return false;
  }

  @Override
  public boolean dials() {
    return true;
  }

  @Override
  public boolean receives() {
    return pair;
  }

  @Override
  public boolean prepare(int place) {
    return spare[place].prepare(sockets[place]);
  }

  @Override
  public void drop(int place) {
    spare[place].drop();
  }

  @Override
  public boolean isAtHome(int place) {
    return spare[place].isHome(sockets[place]);
  }

  @Override
  public boolean prepareReturn(int place) {
    SpareDialer here = spare[place];
    DataChannel current = sockets[place];
    return !here.isHome(current) && here.prepareReturn(current, handle.where().get(home(place)));
  }

  /**
   * Takes what is prepared, else dials the connection's own address first, then all others. A
   * socket that was lost before it took over is followed by one to the next address, after a pause
   * if that was the last.
   */
  @Override
  public DataChannel next(int place) {
    if (given[place] != null) {
      if (given[place] == sockets[place]) {
        further[place] = null; // it took over, and broke later
      } else {
        further[place].failed(new IOException("the connection broke before it was used"));
      }
      given[place] = null;
    }
    DataChannel prepared = spare[place].take();
    if (prepared != null) {
      return prepared;
    }
    if (further[place] == null) {
      further[place] = replacing(fromBroken(place));
    }
    Dialer current = further[place];
    try {
      PendingHandshake proved = current.poll(() -> handshake(place, true));
      if (proved == null) {
        return null;
      }
      given[place] = taken(current, proved);
      return given[place];
    } catch (IOException e) {
      if (current.failed(e) && current.isHopeless()) {
        further[place] = null;
        throw unreachable(current);
      }
      return null;
    }
  }

  private List<InetSocketAddress> fromBroken(int place) {
    List<InetSocketAddress> all = new ArrayList<>(handle.where());
    Collections.rotate(all, -home(place));
    return all;
  }

  /** Returns the number of the address to which a socket belongs. */
  private int home(int place) {
    int address = dialer.index();
    if (place == 0 || address >= handle.rails()) {
      return address;
    }
    int rail = (address + place - 1) % handle.rails();
    return cut.contains(rail) ? address : rail;
  }

  private static DataChannel taken(Dialer from, PendingHandshake proved) {
    DataChannel bytes = Protection.bytes(proved);
    from.take();
    return bytes;
  }

  private SystemErrorException unreachable(Dialer dialer) {
    return new SystemErrorException(
        ErrorId.UNREACHABLE,
        "no address of the other side can be reached: " + dialer.failures(),
        handle.encrypted()
            ? "see that the process there still runs, and that NCCL4J_TLS_CA of each rank has the"
                + " authority of the other's NCCL4J_TLS_CERT"
            : "see that the process there still runs, let TCP through the firewall to its ports"
                + " (NCCL4J_BOOTSTRAP_PORTS fixes them), or choose interfaces that lead there with"
                + " NCCL_SOCKET_IFNAME on both hosts");
  }

  /** The listener has been told, too, so that both ends say how they differ. */
  private void checkSettings(InetSocketAddress reached) {
    Optional<InvalidUsageException> difference =
        protection.differs(handle.sums(), handle.encrypted(), Sockets.text(reached));
    if (difference.isPresent()) {
      close();
      index = 0;
      throw difference.get();
    }
  }

  private boolean differsInTls() {
    return protection.encrypted() != handle.encrypted();
  }

  private Handshake handshake() {
    return handshake(index, false);
  }

  private Handshake handshake(int place, boolean resumes) {
    int which = differsInTls() ? DIFFERS : pair ? PAIR : place;
    SocketRequest request =
        new SocketRequest(
            handle.token(), home(place), which, sockets.length, protection.sums(), resumes);
    return Handshake.client(protection.secret(), Handshake.Service.SOCKET, request.toBytes());
  }

  /** Returns the number of the address to which the current socket goes. */
  private int rail() {
    return home(index);
  }

  private Dialer current() {
    if (rail() == dialer.index()) {
      return dialer;
    }
    if (railDialer == null) {
      railDialer = dialer(List.of(handle.where().get(rail())));
    }
    return railDialer;
  }

  /** Goes on without a rail that another connection could not reach, unless it answers now. */
  private void leaveHopelessRail() {
    int rail = rail();
    boolean isFurther = rail != dialer.index();
    boolean answers = railDialer != null && railDialer.isAnswered();
    if (isFurther && !answers && rails.areHopeless(handle.addresses().get(rail))) {
      leaveRail();
    }
  }

  private void leaveRail() {
    cut.add(rail());
    if (railDialer != null) {
      railDialer.close();
      railDialer = null;
    }
  }

  /** Tries once more, goes on without a rail, or to the next address. */
  private void reject(Dialer current, IOException failure) {
    InetSocketAddress tried = current.current();
    if (!current.failed(failure)) {
      return;
    }
    if (current == railDialer) {
      leaveRail();
      LOG.log(
          rails.failed(tried.getAddress())
              ? System.Logger.Level.WARNING
              : System.Logger.Level.DEBUG,
          "{0} cannot be reached ({1}), so connections do not use it; NCCL_SOCKET_IFNAME"
              + " leaves out interfaces that do not lead to all hosts",
          Sockets.text(tried),
          Sockets.reason(failure));
      return;
    }
    close();
    index = 0;
    if (handle.encrypted() && protection.tls().isOff()) {
      checkSettings(tried); // the listener cannot be told
    }
    if (dialer.isHopeless()) {
      throw unreachable(dialer);
    }
    LOG.log(
        dialer.isFirstRound() ? System.Logger.Level.WARNING : System.Logger.Level.DEBUG,
        "{0} cannot be reached ({1}); trying {2}",
        Sockets.text(tried),
        Sockets.reason(failure),
        dialer.next());
  }

  /** Returns the dialer's state, for messages. */
  @Override
  public String toString() {
    return "connecting to " + dialer;
  }

  @Override
  public void close() {
    if (link != null) {
      link.end();
    }
    dialer.close();
    for (SpareDialer each : spare) {
      each.close();
    }
    for (Dialer each : further) {
      if (each != null) {
        each.close();
      }
    }
    if (railDialer != null) {
      railDialer.close();
      railDialer = null;
    }
    for (int s = 0; s < index; s++) {
      Sockets.close(sockets[s]);
    }
  }
}
