package org.nccl4j.it.net;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.nccl4j.device.support.Patience;

/** A port of this host that relays TCP connections to another, with a fault for some. */
abstract class RelayWire implements AutoCloseable {
  private static final int MOST_PIECE = 64 << 10;

  /** The fault of one connection; the threads of both directions ask it. */
  interface Fault {
    /**
     * Tells what becomes of bytes that have come.
     *
     * @param there whether they go to the target, else from it
     */
    Passing pass(int got, boolean there);
  }

  /**
   * The fate of bytes that have come: the first are passed on, the others lost.
   *
   * @param cut whether the connection ends then
   */
  record Passing(int bytes, boolean cut) {}

  private final ServerSocket listening = new ServerSocket(0, 1024);
  private final InetSocketAddress target;
  private final Random random;
  private final boolean resets;
  private final List<Socket> sockets = new ArrayList<>();
  private final List<Thread> threads = new ArrayList<>();
  private boolean closed;

  /**
   * Opens a port before a target.
   *
   * @param random gives the sizes of the pieces in which bytes pass
   * @param resets whether connections end by a reset
   */
  RelayWire(InetSocketAddress target, Random random, boolean resets) throws IOException {
    this.target = target;
    this.random = new Random(random.nextLong());
    this.resets = resets;
  }

  /** Returns the fault of a new connection. */
  abstract Fault connected();

  /** Begins to accept connections, once the subclass can tell their faults. */
  final void start() {
    start(this::accept);
  }

  final int port() {
    return listening.getLocalPort();
  }

  private synchronized void start(Runnable body) {
    Thread thread = new Thread(body, "relay-wire");
    thread.setDaemon(true);
    threads.add(thread);
    thread.start();
  }

  private void accept() {
    while (true) {
      try {
        Socket from = listening.accept();
        Socket to = new Socket();
        keep(from);
        keep(to);
        try {
          to.connect(target);
        } catch (IOException e) {
          end(from);
          continue;
        }
        from.setTcpNoDelay(true);
        to.setTcpNoDelay(true);
        Fault fault = connected();
        Random there = new Random(random.nextLong());
        Random back = new Random(random.nextLong());
        start(() -> pump(from, to, fault, true, there));
        start(() -> pump(to, from, fault, false, back));
      } catch (IOException e) {
        return; // it has been closed
      }
    }
  }

  private synchronized void keep(Socket socket) throws IOException {
    if (closed) {
      socket.close();
      throw new IOException("closed");
    }
    sockets.add(socket);
  }

  private void pump(Socket from, Socket to, Fault fault, boolean there, Random pieces) {
    byte[] buffer = new byte[MOST_PIECE];
    try {
      while (true) {
        int got = from.getInputStream().read(buffer, 0, 1 + pieces.nextInt(MOST_PIECE));
        if (got < 0) {
          to.shutdownOutput();
          return;
        }
        Passing passing = fault.pass(got, there);
        to.getOutputStream().write(buffer, 0, passing.bytes);
        if (passing.cut) {
          end(from);
          end(to);
          return;
        }
      }
    } catch (IOException e) {
      end(from);
      end(to);
    }
  }

  private void end(Socket socket) {
    try {
      if (resets) {
        socket.setSoLinger(true, 0);
      }
    } catch (IOException e) {
      // It is closed already.
    }
    try {
      socket.close();
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
      sockets.forEach(this::end);
      running = List.copyOf(threads);
    }
    for (Thread thread : running) {
      Patience.join(thread, Duration.ofSeconds(60));
    }
  }
}
