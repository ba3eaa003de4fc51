package org.nccl4j.transport.net.ib.control;

import java.io.IOException;
import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SelectableChannel;
import java.nio.channels.ServerSocketChannel;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.locks.ReentrantLock;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.spi.NetContext;
import org.nccl4j.api.wire.Handshake;
import org.nccl4j.api.wire.Listener;
import org.nccl4j.api.wire.ListeningSocket;
import org.nccl4j.api.wire.PendingHandshake;
import org.nccl4j.device.os.KernelRandom;

/**
 * The listening socket of one communicator's InfiniBand, for control connections: open while a
 * listener awaits its sender, or a sender may dial again because its first control connection went
 * over a port that is down. It closes when nothing is awaited any more. Strangers cannot block it:
 * with too many connections, those without a proof are closed, the oldest first. Any thread may
 * call it.
 */
public final class ControlPort implements Listener.Acceptor {
  private static final int MOST_STRANGERS = 64;

  private final NetContext context;
  private final ServerSocketChannel channel;
  private final Listener port;
  private final int number;
  private final ReentrantLock polled = new ReentrantLock();
  private final Map<Long, Queue<ControlConnection>> sessions = new ConcurrentHashMap<>();

  /** Opens it. */
  public ControlPort(NetContext context) throws IOException {
    this.context = context;
    ServerSocketChannel server =
        ListeningSocket.open(
            "InfiniBand's control channel",
            /* host= */ null,
            context.get(Settings.NCCL4J_BOOTSTRAP_PORTS));
    server.configureBlocking(false);
    channel = server;
    number = ListeningSocket.port(server);
    port = new Listener(server, this, MOST_STRANGERS, System::nanoTime);
  }

  /**
   * Begins to await the connections of a new listener; returns the handle that leads to it, or null
   * if this port is closed.
   */
  public synchronized IbHandle await(int queuePairs, int ports, List<InetAddress> addresses) {
    if (!port.isOpen()) {
      return null;
    }
    long session = KernelRandom.number();
    sessions.put(session, new ConcurrentLinkedQueue<>());
    return new IbHandle(session, number, queuePairs, ports, addresses);
  }

  /** The next connection for a handle that knows the secret; null if none has come. */
  public ControlConnection next(IbHandle handle) {
    Queue<ControlConnection> come = sessions.get(handle.session());
    return come == null ? null : come.poll();
  }

  /** Awaits no more connections for a handle, and closes with the last. */
  public synchronized void forget(IbHandle handle) {
    Queue<ControlConnection> come = sessions.remove(handle.session());
    if (come != null) {
      come.forEach(ControlConnection::close);
    }
    if (sessions.isEmpty()) {
      close();
    }
  }

  /** Returns the listening socket; null if it is closed. */
  public SelectableChannel channel() {
    return channel.isOpen() ? channel : null;
  }

  /** Lets in who comes. */
  public void poll() {
    if (port.isOpen() && polled.tryLock()) {
      try {
        port.poll();
      } finally {
        polled.unlock();
      }
    }
  }

  /** True if somebody has come and not proved itself. */
  public boolean hasGuests() {
    return port.guests() > 0;
  }

  /** Returns the refused connections, for messages. */
  public String refusals() {
    return port.refusals();
  }

  @Override
  public Handshake handshake() {
    return Handshake.server(context.secret(), Handshake.Service.INFINIBAND);
  }

  @Override
  public PendingHandshake.Channels channels() {
    return socket -> context.controlChannel(socket, /* dialed= */ false);
  }

  @Override
  public int awaited() {
    return sessions.size();
  }

  @Override
  public boolean awaits(ByteBuffer request) {
    return sessions.containsKey(request.getLong());
  }

  @Override
  public boolean admit(PendingHandshake proved) {
    Queue<ControlConnection> come = sessions.get(proved.handshake().request().getLong());
    return come != null && come.add(new ControlConnection(proved));
  }

  /** Closes the socket, and whatever nobody has taken. */
  public void close() {
    polled.lock();
    try {
      port.close();
    } finally {
      polled.unlock();
    }
    sessions.values().forEach(come -> come.forEach(ControlConnection::close));
    sessions.clear();
  }
}
