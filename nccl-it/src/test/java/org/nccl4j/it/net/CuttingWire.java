package org.nccl4j.it.net;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Queue;
import java.util.Random;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.nccl4j.device.Patience;

/**
 * A port of this host that passes TCP connections on to another, and cuts each at a byte that is
 * given: the bytes of both directions count. What it has read and not passed on is lost.
 */
final class CuttingWire implements AutoCloseable {
  private static final int MOST_PIECE = 64 << 10;

  private final ServerSocket listening = new ServerSocket(0, 1024);
  private final InetSocketAddress target;
  private final Queue<Long> cutsAt;
  private final boolean resets;
  private final Random random;
  private final AtomicInteger cuts = new AtomicInteger();
  private final List<Socket> sockets = new ArrayList<>();
  private final List<Thread> threads = new ArrayList<>();
  private boolean closed;

  /**
   * Opens a port before a target.
   *
   * @param cutsAt bytes after which the connections are cut, in the order in which they come;
   *     further ones stay
   * @param resets whether a cut is a reset, else an end
   */
  CuttingWire(InetSocketAddress target, Random random, boolean resets, Long... cutsAt)
      throws IOException {
    this.target = target;
    this.random = new Random(random.nextLong());
    this.resets = resets;
    this.cutsAt = new ArrayDeque<>(Arrays.asList(cutsAt));
    start(this::accept);
  }

  int port() {
    return listening.getLocalPort();
  }

  /** Returns how many connections have been cut. */
  int cuts() {
    return cuts.get();
  }

  private synchronized void start(Runnable body) {
    Thread thread = new Thread(body, "cutting-wire");
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
          end(from, true);
          continue;
        }
        from.setTcpNoDelay(true);
        to.setTcpNoDelay(true);
        Long cut = cutsAt.poll();
        AtomicLong left = new AtomicLong(cut == null ? Long.MAX_VALUE : cut);
        start(() -> pump(from, to, left, random.nextLong()));
        start(() -> pump(to, from, left, random.nextLong()));
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

  private void pump(Socket from, Socket to, AtomicLong left, long seed) {
    Random pieces = new Random(seed);
    byte[] buffer = new byte[MOST_PIECE];
    try {
      while (true) {
        int got = from.getInputStream().read(buffer, 0, 1 + pieces.nextInt(MOST_PIECE));
        if (got < 0) {
          to.shutdownOutput();
          return;
        }
        long before = left.getAndAdd(-got);
        to.getOutputStream().write(buffer, 0, (int) Math.max(0, Math.min(got, before)));
        if (before <= got) {
          if (before > 0) {
            cuts.incrementAndGet();
          }
          end(from, resets);
          end(to, resets);
          return;
        }
      }
    } catch (IOException e) {
      end(from, true);
      end(to, true);
    }
  }

  private static void end(Socket socket, boolean resets) {
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
      sockets.forEach(socket -> end(socket, true));
      running = List.copyOf(threads);
    }
    for (Thread thread : running) {
      Patience.join(thread, Duration.ofSeconds(60));
    }
  }
}
