package org.nccl4j.transport.net.socket;

import java.nio.channels.SelectableChannel;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.nccl4j.api.settings.ScaleSettings;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.spi.Net;
import org.nccl4j.api.spi.NetContext;
import org.nccl4j.api.spi.NetDevice;
import org.nccl4j.api.spi.NetListener;
import org.nccl4j.api.spi.NetSender;
import org.nccl4j.device.Device;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.support.CloseAll;
import org.nccl4j.transport.net.socket.link.DataSocketCount;
import org.nccl4j.transport.net.socket.link.SharedSocketThreads;
import org.nccl4j.transport.net.socket.link.SocketMemory;
import org.nccl4j.transport.net.socket.link.SocketSender;
import org.nccl4j.transport.net.socket.link.SocketSource;
import org.nccl4j.transport.net.socket.link.SocketWatch;

/** One communicator's sockets. */
final class SocketNet implements Net {
  /** One-way, with both sides' system calls; NCCL's figure. */
  private static final double LATENCY_MICROS = 25;

  /** Ranks beyond which all pairs have too many connections to have two sockets each. */
  private static final int MOST_RANKS = 64;

  /** Connections that have further sockets where few pairs are connected, as of those ranks. */
  static final int MOST_CONNECTIONS = 512;

  /** The first connections, of which each has several. */
  static final int FIRST_CONNECTIONS = 64;

  /**
   * A single stream is slowed down by its receiver's lock, and by packets that overtake each other
   * where a thread changes its core.
   */
  private static final int SEVERAL = 4;

  private final Protection protection;
  private final SocketSettings settings;
  private final List<Nic> nics;

  /** True if a connection's messages move faster with a thread of their own. */
  private final boolean helped;

  private final SharedSocketThreads threads =
      new SharedSocketThreads(Runtime.getRuntime().availableProcessors());
  private final int rank;
  private final Map<Integer, SocketListener> paired = new HashMap<>();
  private final List<AutoCloseable> opened = new ArrayList<>();
  private final SocketWatch watch;
  private final RailTrials rails = new RailTrials();

  /** Connections that this rank has listened for. */
  private int listeners;

  private volatile SocketPort port;

  SocketNet(NetContext context) {
    this.rank = context.rank();
    this.protection = Protection.of(context);
    this.settings = SocketSettings.of(context);
    this.helped = context.sharesThread() && isFew(context);
    this.watch =
        new SocketWatch(
            context.get(Settings.NCCL4J_NET_FAILOVER_TIMEOUT),
            context.get(Settings.NCCL4J_NET_SILENCE_TIMEOUT),
            this::pollPort,
            this::listening);
    Nics found = Nics.find(settings);
    if (found.chosen().isEmpty()) {
      throw new SystemErrorException(
          ErrorId.INTERFACE,
          "sockets cannot be used: " + found.text(),
          "bring up a network interface");
    }
    this.nics = found.chosen();
  }

  /** True if this rank is not connected with many others from the start. */
  private static boolean isFew(NetContext context) {
    return context.ranks() <= MOST_RANKS
        || ScaleSettings.connectsLate(context, Device.Kind.CUDA, context.ranks());
  }

  /** Returns the listening socket; null if there is none. */
  private SelectableChannel listening() {
    SocketPort open = port;
    return open == null ? null : open.channel();
  }

  private void pollPort() {
    SocketPort open = port;
    if (open != null) {
      open.poll();
      if (open.guests() > 0) {
        watch.haveGuests();
      }
    }
  }

  @Override
  public List<NetDevice> devices() {
    List<NetDevice> devices = new ArrayList<>();
    for (Nic nic : nics) {
      devices.add(
          new NetDevice(
              nic.name(),
              nic.pciPath(),
              devices.size(),
              1,
              nic.megabits(),
              LATENCY_MICROS,
              Set.of(NetDevice.Pointers.HOST),
              1,
              SocketMemory.MAX_MESSAGE));
    }
    return devices;
  }

  /** {@inheritDoc} Its sockets are spread over the interfaces. */
  @Override
  public boolean spreads() {
    return true;
  }

  @Override
  public boolean carriesNotes() {
    return true;
  }

  /** {@inheritDoc} The other ends are taken to have as many connections. */
  @Override
  public int descriptors(int pairs) {
    int sum = 0;
    for (int pair = 0; pair < pairs; pair++) {
      sum += descriptorsOf(listeners + pair);
    }
    return sum;
  }

  /** Of a pair of connections, before which there are others. */
  private int descriptorsOf(int before) {
    int most = 0;
    for (Nic nic : nics) {
      most = Math.max(most, lanes(nic, before).lanes());
    }
    return most == 0 ? 1 : 2 * (1 + most);
  }

  @Override
  public NetListener listen(int device) {
    return listen(device, false);
  }

  @Override
  public NetListener listen(int device, int peer) {
    if (lanes(nics.get(device)).lanes() > 0 || paired.containsKey(peer)) {
      return listen(device);
    }
    SocketListener listener = listen(device, true);
    paired.put(peer, listener);
    return listener;
  }

  private SocketListener listen(int device, boolean pair) {
    if (port == null || !port.expect()) {
      port = SocketPort.open(protection, settings, nics);
      port.expect();
    }
    SocketListener listener =
        new SocketListener(
            port,
            lanes(nics.get(device)),
            threads,
            SocketRails.of(nics.get(device), nics, settings.interfaces().lists()),
            pair,
            watch);
    opened.add(listener);
    listeners++;
    return listener;
  }

  /** The listener of a connection decides for both ends. */
  private DataSocketCount lanes(Nic nic) {
    return lanes(nic, listeners);
  }

  private DataSocketCount lanes(Nic nic, int before) {
    boolean isFirst = before < FIRST_CONNECTIONS;
    boolean isMore = before < MOST_CONNECTIONS;
    return settings.dataSockets(nic, !helped || !isMore ? 0 : isFirst ? SEVERAL : 1);
  }

  @Override
  public NetSender connect(int device, byte[] handle) {
    return sender(
        device, new SocketDialer(SocketHandle.fromBytes(handle), protection, false, watch, rails));
  }

  /** Shares a socket if both ranks can: the lower dials, the higher takes what comes. */
  @Override
  public NetSender connect(int device, int peer, byte[] handle) {
    SocketListener listener = paired.get(peer);
    if (listener == null || !listener.isUndecided()) {
      return connect(device, handle);
    }
    SocketHandle there = SocketHandle.fromBytes(handle);
    if (!there.paired()) {
      listener.comeFrom(listener.awaited());
      return sender(device, new SocketDialer(there, protection, false, watch, rails));
    }
    SocketPair pair =
        new SocketPair(
            rank < peer
                ? new SocketDialer(there, protection, true, watch, rails)
                : listener.awaited());
    listener.comeFrom(pair);
    return sender(device, pair);
  }

  private NetSender sender(int device, SocketSource source) {
    // Where the listener has decided on a second socket, the shared threads serve it.
    DataSocketCount preferred = settings.dataSockets(nics.get(device), helped ? 1 : 0);
    SocketSender sender = new SocketSender(source, preferred, threads);
    opened.add(sender);
    return sender;
  }

  @Override
  public void close() {
    CloseAll all = new CloseAll();
    all.take(watch::close);
    for (AutoCloseable each : opened) {
      if (each instanceof SocketListener listener) {
        all.take(listener::closeAll);
      } else if (each instanceof SocketSender sender) {
        all.take(sender::close);
      }
    }
    opened.clear();
    all.take(threads::close);
    SocketPort open = port;
    if (open != null) {
      all.take(open::close);
    }
    all.end();
  }
}
