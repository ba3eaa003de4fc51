package org.nccl4j.it.api;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.ArrayList;
import java.util.List;

/**
 * The sockets of one rank's network, each of which leads through a forwarder of this process, so
 * that they can be cut. Any thread.
 */
final class CuttableForwarder implements AutoCloseable {
  private static final int PATIENCE_MILLIS = 10_000;

  private final List<ServerSocket> listening = new ArrayList<>();
  private final List<Socket> sockets = new ArrayList<>();
  private volatile boolean cut;

  /** The port of a forwarder to a port of this machine. */
  int to(InetSocketAddress target) {
    try {
      ServerSocket server = new ServerSocket(0, 64, InetAddress.getLoopbackAddress());
      synchronized (this) {
        listening.add(server);
      }
      start("chaos-cable", () -> accept(server, target));
      return server.getLocalPort();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private void accept(ServerSocket server, InetSocketAddress target) {
    try {
      while (true) {
        Socket near = keep(server.accept());
        Socket far = keep(new Socket());
        far.connect(target, PATIENCE_MILLIS);
        start("chaos-forth", () -> pump(near, far));
        start("chaos-back", () -> pump(far, near));
      }
    } catch (IOException e) {
      // The round is over and has closed it, or nobody listens: both ends see a closed socket.
      close(server);
    }
  }

  private synchronized Socket keep(Socket socket) throws IOException {
    socket.setTcpNoDelay(true);
    sockets.add(socket);
    return socket;
  }

  private void pump(Socket from, Socket to) {
    byte[] bytes = new byte[64 << 10];
    try {
      InputStream in = from.getInputStream();
      OutputStream out = to.getOutputStream();
      for (int n = in.read(bytes); n >= 0; n = in.read(bytes)) {
        if (cut) {
          return;
        }
        out.write(bytes, 0, n);
      }
      to.shutdownOutput();
    } catch (IOException e) {
      // One end is gone: so is the other.
      closeBoth(from, to);
    }
  }

  /** Closes a cable; never between the look and the close of {@link #reset}. */
  private synchronized void closeBoth(Socket one, Socket other) {
    close(one);
    close(other);
  }

  /** From now on nothing that is sent arrives, and nobody is told. */
  void cut() {
    cut = true;
  }

  /** Every connection is reset. */
  synchronized void reset() throws IOException {
    for (Socket socket : sockets) {
      if (!socket.isClosed()) {
        socket.setSoLinger(true, 0);
        socket.close();
      }
    }
  }

  @Override
  public synchronized void close() {
    listening.forEach(CuttableForwarder::close);
    sockets.forEach(CuttableForwarder::close);
    listening.clear();
    sockets.clear();
  }

  private static void close(AutoCloseable open) {
    try {
      open.close();
    } catch (Exception e) {
      throw new IllegalStateException(e);
    }
  }

  private static void start(String name, Runnable body) {
    Thread thread = new Thread(body, name);
    thread.setDaemon(true);
    thread.start();
  }
}
