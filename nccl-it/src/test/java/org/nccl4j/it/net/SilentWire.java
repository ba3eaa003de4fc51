package org.nccl4j.it.net;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.PriorityQueue;
import java.util.Queue;
import org.nccl4j.device.Patience;

/**
 * A port of this host that passes TCP connections on to another, and lets some go silent at a byte
 * that is given: from then on it takes bytes and passes none on, and closes nothing, as a firewall
 * does that has forgotten the connection.
 */
final class SilentWire implements AutoCloseable {
  /** The directions in which bytes vanish. */
  enum Direction {
    THERE,
    BACK,
    BOTH
  }

  private final ServerSocket listening = new ServerSocket(0, 1024);
  private final InetSocketAddress target;
  private final Queue<Long> silentAt;
  private final Direction direction;
  private int silences;
  private final List<Socket> sockets = new ArrayList<>();
  private final List<Thread> threads = new ArrayList<>();
  private boolean closed;

  /**
   * Opens a port before a target.
   *
   * @param silentAt bytes of both directions after which connections go silent: the first that has
   *     the least of them goes silent there, then the first that has the next; others stay
   */
  SilentWire(InetSocketAddress target, Direction direction, Long... silentAt) throws IOException {
    this.target = target;
    this.direction = direction;
    this.silentAt = new PriorityQueue<>(Arrays.asList(silentAt));
    start(this::accept);
  }

  int port() {
    return listening.getLocalPort();
  }

  /** Returns how many connections have gone silent. */
  synchronized int silences() {
    return silences;
  }

  private synchronized void start(Runnable body) {
    Thread thread = new Thread(body, "silent-wire");
    thread.setDaemon(true);
    threads.add(thread);
    thread.start();
  }

  private void accept() {
    try {
      while (true) {
        Socket from = listening.accept();
        Socket to = new Socket();
        keep(from);
        keep(to);
        to.connect(target);
        from.setTcpNoDelay(true);
        to.setTcpNoDelay(true);
        Passed passed = new Passed();
        start(() -> pump(from, to, passed, direction != Direction.BACK));
        start(() -> pump(to, from, passed, direction != Direction.THERE));
      }
    } catch (IOException e) {
      end(listening::close);
    }
  }

  private synchronized void keep(Socket socket) throws IOException {
    if (closed) {
      socket.close();
      throw new IOException("closed");
    }
    sockets.add(socket);
  }

  /** A count of what has passed of a connection, in both directions. */
  private static final class Passed {
    long bytes;
    boolean silent;
  }

  /** Returns how many of the bytes that have come are before the connection's silence. */
  private synchronized int beforeSilence(Passed passed, int got) {
    if (passed.silent) {
      return 0;
    }
    Long at = silentAt.peek();
    if (at == null || passed.bytes + got < at) {
      passed.bytes += got;
      return got;
    }
    silentAt.poll();
    silences++;
    passed.silent = true;
    return (int) Math.max(0, at - passed.bytes);
  }

  private void pump(Socket from, Socket to, Passed passed, boolean goesSilent) {
    byte[] buffer = new byte[32 << 10];
    try {
      while (true) {
        int got = from.getInputStream().read(buffer);
        if (got < 0) {
          to.shutdownOutput();
          return;
        }
        int before = beforeSilence(passed, got);
        to.getOutputStream().write(buffer, 0, goesSilent ? before : got);
      }
    } catch (IOException e) {
      end(from::close);
      end(to::close);
    }
  }

  private interface Closing {
    void close() throws IOException;
  }

  private static void end(Closing what) {
    try {
      what.close();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Closes the port and what goes through it, and ends its threads. */
  @Override
  public void close() throws IOException {
    List<Thread> running;
    listening.close();
    synchronized (this) {
      closed = true;
      sockets.forEach(socket -> end(socket::close));
      running = List.copyOf(threads);
    }
    for (Thread thread : running) {
      Patience.join(thread, Duration.ofSeconds(60));
    }
  }
}
