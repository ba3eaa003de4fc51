package org.nccl4j.transport.net.socket;

import java.io.IOException;
import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SelectableChannel;
import java.nio.channels.ServerSocketChannel;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.LongSupplier;
import org.nccl4j.api.wire.Handshake;
import org.nccl4j.api.wire.Listener;
import org.nccl4j.api.wire.ListeningSocket;
import org.nccl4j.api.wire.PendingHandshake;
import org.nccl4j.api.wire.Sockets;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.SystemErrorException;

/**
 * The listening socket of one communicator's network, open while a listener awaits something or a
 * connection may need another socket. Any thread may call it.
 */
final class SocketPort implements Listener.Acceptor {
  private static final int MOST_STRANGERS = 256;

  /** Most closed listeners whose tokens are known. */
  private static final int MOST_OVER = 1024;

  private final Protection protection;
  private final ServerSocketChannel channel;
  private final Listener port;
  private final Map<ByteBuffer, SocketListener> listeners = new HashMap<>();

  /**
   * Tokens of the last listeners that are closed with their connections. A sender whose connection
   * ends dials another socket.
   */
  private final Set<ByteBuffer> over = new LinkedHashSet<>();

  /** Listeners that are being made. */
  private int expected;

  private SocketPort(
      ServerSocketChannel channel, Protection protection, int mostStrangers, LongSupplier clock) {
    this.protection = protection;
    this.channel = channel;
    this.port = new Listener(channel, this, mostStrangers, clock);
  }

  /** Listens on the first free port, on the interface if there is only one. */
  static SocketPort open(Protection protection, SocketSettings settings, List<Nic> nics) {
    return open(protection, settings, nics, MOST_STRANGERS, System::nanoTime);
  }

  /** Opens a port as the other method does, with another number of strangers and clock. */
  static SocketPort open(
      Protection protection,
      SocketSettings settings,
      List<Nic> nics,
      int mostStrangers,
      LongSupplier clock) {
    InetAddress host = nics.size() == 1 ? nics.get(0).address() : null;
    ServerSocketChannel channel = ListeningSocket.open("the network", host, settings.ports());
    try {
      channel.configureBlocking(false);
    } catch (IOException e) {
      Sockets.close(channel);
      throw new SystemErrorException(
          ErrorId.SYSTEM,
          "a listening socket of the network broke: " + e.getMessage(),
          "create the communicator again; see dmesg and the host's interfaces",
          e);
    }
    return new SocketPort(channel, protection, mostStrangers, clock);
  }

  Protection protection() {
    return protection;
  }

  /** Stays open for one more listener, which is then added; false if it is closed. */
  synchronized boolean expect() {
    if (!port.isOpen()) {
      return false;
    }
    expected++;
    return true;
  }

  /** Returns the listening socket; null if it is closed. */
  SelectableChannel channel() {
    return channel.isOpen() ? channel : null;
  }

  int number() {
    return port.port();
  }

  /** Has sockets that name a token handed to a listener, which is expected. */
  synchronized void add(byte[] token, SocketListener listener) {
    expected--;
    listeners.put(ByteBuffer.wrap(token), listener);
  }

  /** Forgets a listener, and closes with the last. */
  synchronized void remove(byte[] token) {
    listeners.remove(ByteBuffer.wrap(token));
    over.add(ByteBuffer.wrap(token));
    if (over.size() > MOST_OVER) {
      over.remove(over.iterator().next());
    }
    if (listeners.isEmpty() && expected == 0) {
      close();
    }
  }

  /** Takes what has come. */
  synchronized void poll() {
    if (!port.isOpen()) {
      return;
    }
    port.poll();
  }

  /** Returns the number of sockets that have come and are not authenticated. */
  synchronized int guests() {
    return port.guests();
  }

  @Override
  public Handshake handshake() {
    return Handshake.server(protection.secret(), Handshake.Service.SOCKET);
  }

  @Override
  public PendingHandshake.Channels channels() {
    return protection.channels(protection.encrypted(), /* dialed= */ false);
  }

  @Override
  public int awaited() {
    return listeners.values().stream().mapToInt(SocketListener::missing).sum();
  }

  @Override
  public boolean awaits(ByteBuffer bytes) {
    SocketRequest request = SocketRequest.of(bytes);
    SocketListener listener = listeners.get(ByteBuffer.wrap(request.token()));
    return listener != null && listener.awaits(request);
  }

  @Override
  public boolean isOver(ByteBuffer request) {
    return over.contains(ByteBuffer.wrap(SocketRequest.of(request).token()));
  }

  @Override
  public boolean admit(PendingHandshake proved) {
    SocketRequest request = SocketRequest.of(proved.handshake().request());
    SocketListener listener = listeners.get(ByteBuffer.wrap(request.token()));
    return listener != null && listener.admit(Protection.bytes(proved), request);
  }

  /** Returns the refused connections, for messages; empty if there are none. */
  synchronized String refusals() {
    return port.refusals();
  }

  synchronized void close() {
    port.close();
  }
}
