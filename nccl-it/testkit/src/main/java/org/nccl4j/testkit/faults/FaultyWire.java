package org.nccl4j.testkit.faults;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/**
 * A port of this host that passes TCP connections on to another, with faults: to put between two
 * ends that know nothing of it. The first bytes of each client are kept, so that they can be played
 * again.
 *
 * <p>Two threads a connection. Any thread may call it.
 */
public final class FaultyWire implements AutoCloseable {
  private static final int BUFFER = 64 << 10;
  private static final int RECORDED = 64 << 10;
  private static final int CONNECT_MILLIS = 10_000;
  private static final int BACKLOG = 1024;

  private final ServerSocket listening;
  private final InetSocketAddress target;
  private final WireFaults faults;
  private final List<Socket> sockets = new ArrayList<>();
  private final List<ByteArrayOutputStream> recorded = new ArrayList<>();
  private final List<Thread> threads = new ArrayList<>();
  private final CountDownLatch closed = new CountDownLatch(1);

  private FaultyWire(ServerSocket listening, InetSocketAddress target, WireFaults faults) {
    this.listening = listening;
    this.target = target;
    this.faults = faults;
  }

  /**
   * Opens a port, on all addresses, before a target.
   *
   * @throws IOException if no port can be had
   */
  public static FaultyWire before(InetSocketAddress target, WireFaults faults) throws IOException {
    FaultyWire wire = new FaultyWire(new ServerSocket(0, BACKLOG), target, faults);
    wire.start("accept", wire::accept);
    return wire;
  }

  /** The port that it listens on. */
  public int port() {
    return listening.getLocalPort();
  }

  /** The first bytes that each client sent, in the order in which they came. */
  public List<byte[]> recorded() {
    synchronized (recorded) {
      List<byte[]> copies = new ArrayList<>();
      for (ByteArrayOutputStream each : recorded) {
        synchronized (each) {
          copies.add(each.toByteArray());
        }
      }
      return copies;
    }
  }

  private void start(String what, Runnable body) {
    Thread thread = new Thread(body, "faulty-wire-" + what);
    thread.setDaemon(true);
    synchronized (sockets) {
      threads.add(thread);
    }
    thread.start();
  }

  private void accept() {
    while (true) {
      Socket from = null;
      Socket to = new Socket();
      try {
        from = listening.accept();
        keep(from, to);
        to.connect(target, CONNECT_MILLIS);
        from.setTcpNoDelay(true);
        to.setTcpNoDelay(true);
        passOn(from, to);
      } catch (IOException e) {
        reset(to);
        if (from == null) {
          return;
        }
        reset(from);
      }
    }
  }

  private void keep(Socket... each) throws IOException {
    synchronized (sockets) {
      if (closed.getCount() == 0) {
        throw new IOException("closed");
      }
      sockets.addAll(List.of(each));
    }
  }

  private void passOn(Socket from, Socket to) {
    ByteArrayOutputStream record = new ByteArrayOutputStream();
    synchronized (recorded) {
      recorded.add(record);
    }
    start("forth", () -> pump(from, to, record));
    start("back", () -> pump(to, from, new ByteArrayOutputStream()));
  }

  private void pump(Socket from, Socket to, ByteArrayOutputStream record) {
    Random random = new Random(faults.seed());
    byte[] buffer = new byte[BUFFER];
    long passed = 0;
    try {
      while (true) {
        long most = Math.min(buffer.length, untilFault(passed));
        if (faults.piece() > 0) {
          most = Math.min(most, 1 + random.nextInt(faults.piece()));
        }
        int got = from.getInputStream().read(buffer, 0, (int) most);
        if (got < 0) {
          to.shutdownOutput();
          return;
        }
        synchronized (record) {
          record.write(buffer, 0, Math.min(got, RECORDED - record.size()));
        }
        if (passed <= faults.flipsAt() && faults.flipsAt() < passed + got) {
          buffer[(int) (faults.flipsAt() - passed)] ^= 1;
        }
        to.getOutputStream().write(buffer, 0, got);
        passed += got;
        if (!goesOn(passed)) {
          throw new IOException("reset, as wanted");
        }
      }
    } catch (IOException | InterruptedException e) {
      reset(from);
      reset(to);
    }
  }

  /** Bytes up to the next that something happens at. */
  private long untilFault(long passed) {
    long next = Math.min(faults.stopsAfter(), faults.resetsAfter()) - passed;
    return faults.stallsEvery() == NetFaults.NEVER
        ? next
        : Math.min(next, faults.stallsEvery() - passed % faults.stallsEvery());
  }

  private boolean goesOn(long passed) throws InterruptedException {
    if (passed >= faults.stopsAfter()) {
      closed.await();
    }
    if (faults.stallsEvery() != NetFaults.NEVER && passed % faults.stallsEvery() == 0) {
      closed.await(faults.stall().toMillis(), TimeUnit.MILLISECONDS);
    }
    return passed < faults.resetsAfter();
  }

  private static void reset(Socket socket) {
    try {
      socket.setSoLinger(true, 0);
    } catch (IOException e) {
      // It is closed already.
    }
    try {
      socket.close();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Closes the port, resets what goes through it, and ends its threads. */
  @Override
  public void close() {
    closed.countDown();
    List<Thread> running;
    synchronized (sockets) {
      sockets.forEach(FaultyWire::reset);
      running = List.copyOf(threads);
    }
    try {
      listening.close();
      for (Thread thread : running) {
        thread.join();
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }
}
