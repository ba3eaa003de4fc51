package org.nccl4j.api.observe.http;

import com.sun.net.httpserver.Filter;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpHandler;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Set;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.support.DaemonThread;
import org.nccl4j.device.support.Patience;

/**
 * A server of HTTP that answers GETs on a few daemon threads. At a loopback address it answers only
 * requests that name that address: a web page of another site, whose name may be made to mean the
 * loopback address, gets nothing. Any thread.
 */
public final class GetServer implements AutoCloseable {
  private static final int THREADS = 8;

  /** A client that stops in the middle of a request keeps a thread for so long. */
  private static final Duration PATIENCE = Duration.ofSeconds(5);

  private static final long IDLE_SECONDS = 30;
  private static final Duration START = Duration.ofSeconds(5);
  private static final Set<String> LOOPBACK_NAMES = Set.of("localhost", "127.0.0.1", "[::1]");

  private final HttpServer server;
  private final ThreadPoolExecutor threads;
  private final ClientLimits limits;

  private GetServer(HttpServer server, ThreadPoolExecutor threads, ClientLimits limits) {
    this.server = server;
    this.threads = threads;
    this.limits = limits;
  }

  /**
   * Begins to serve.
   *
   * @param name of its threads
   * @param answer to GETs of all paths
   * @throws IOException if the address cannot be listened on; no socket is left then
   */
  public static GetServer open(InetSocketAddress address, String name, HttpHandler answer)
      throws IOException {
    return open(address, name, answer, PATIENCE);
  }

  static GetServer open(
      InetSocketAddress address, String name, HttpHandler answer, Duration patience)
      throws IOException {
    // The JDK's server keeps its socket if it cannot bind it, until garbage is collected.
    try (Socket probe = new Socket()) {
      probe.setReuseAddress(true);
      probe.bind(address);
    }
    ThreadPoolExecutor threads =
        new ThreadPoolExecutor(
            THREADS,
            THREADS,
            IDLE_SECONDS,
            TimeUnit.SECONDS,
            new LinkedBlockingQueue<>(),
            task -> DaemonThread.of(task, name + "-answer"));
    threads.allowCoreThreadTimeOut(true);
    ClientLimits limits = new ClientLimits(patience, name + "-limit");
    GetServer made = new GetServer(HttpServer.create(address, 0), threads, limits);
    made.server.createContext("/", answer).getFilters().add(new Gate(made.isLoopback()));
    made.server.setExecutor(task -> threads.execute(() -> limits.run(task)));
    // The server's own thread is a daemon if the thread that starts it is one.
    Thread starter = DaemonThread.of(made.server::start, name);
    starter.start();
    if (!Patience.join(starter, START)) {
      made.close();
      throw new InternalErrorException(
          "the HTTP server has not started within " + Patience.text(START), "report this");
    }
    return made;
  }

  private boolean isLoopback() {
    return address().getAddress().isLoopbackAddress();
  }

  /** Where it listens. */
  public InetSocketAddress address() {
    return server.getAddress();
  }

  /** Sends a whole answer. */
  public static void send(HttpExchange exchange, int status, String type, byte[] body)
      throws IOException {
    ClientLimits.begin();
    exchange.getResponseHeaders().set("Content-Type", type);
    exchange.getResponseHeaders().set("Cache-Control", "no-store");
    exchange.getResponseHeaders().set("Content-Security-Policy", "default-src 'self'");
    exchange.sendResponseHeaders(status, body.length);
    exchange.getResponseBody().write(body);
  }

  /** Refuses requests that are no GETs, or name another host. Closes all. */
  private static final class Gate extends Filter {
    private final boolean loopback;

    Gate(boolean loopback) {
      this.loopback = loopback;
    }

    @Override
    public void doFilter(HttpExchange exchange, Chain chain) throws IOException {
      try (exchange) {
        String host = exchange.getRequestHeaders().getFirst("Host");
        if (!exchange.getRequestMethod().equals("GET")) {
          refuse(exchange, 405, "GET only");
        } else if (loopback && host != null && !isLoopbackName(host)) {
          refuse(exchange, 403, "this server is for 127.0.0.1 or localhost, not for " + host);
        } else {
          ClientLimits.end();
          chain.doFilter(exchange);
        }
      }
    }

    private static boolean isLoopbackName(String host) {
      return LOOPBACK_NAMES.contains(host.replaceFirst(":[0-9]+$", ""));
    }

    private static void refuse(HttpExchange exchange, int status, String why) throws IOException {
      send(
          exchange,
          status,
          "text/plain; charset=utf-8",
          (why + "\n").getBytes(StandardCharsets.UTF_8));
    }

    @Override
    public String description() {
      return "GETs for this host";
    }
  }

  /** Serves nothing any more. Calling it again does nothing. */
  @Override
  public void close() {
    server.stop(0);
    threads.shutdownNow();
    limits.close();
  }
}
