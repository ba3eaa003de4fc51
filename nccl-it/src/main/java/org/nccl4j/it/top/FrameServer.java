package org.nccl4j.it.top;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.nccl4j.api.observe.http.HttpServers;
import org.nccl4j.api.observe.http.PrometheusWriter;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.SystemErrorException;

/**
 * Serves a page that draws the frames, the last frame and its hosts as JSON, and their sums to
 * Prometheus, on this machine alone. Its one thread is a daemon of the JDK's server.
 */
final class FrameServer implements AutoCloseable {
  /** Paths with the resource and its media type. */
  private static final Map<String, String[]> RESOURCES =
      Map.of(
          "/", new String[] {"top.html", "text/html; charset=utf-8"},
          "/hosts.js", new String[] {"hosts.js", "text/javascript; charset=utf-8"},
          "/top.svg", new String[] {"top.svg", "image/svg+xml"},
          "/top.js", new String[] {"top.js", "text/javascript; charset=utf-8"},
          "/top.css", new String[] {"top.css", "text/css; charset=utf-8"});

  private final HttpServer server;
  private final PrometheusText sums = new PrometheusText();
  private volatile byte[] metrics = sums.toString().getBytes(StandardCharsets.UTF_8);
  private final TrafficMap map;
  private volatile byte[] frame = "{}".getBytes(StandardCharsets.UTF_8);
  private volatile byte[] hosts = "[]".getBytes(StandardCharsets.UTF_8);

  private FrameServer(HttpServer server, TrafficMap map) {
    this.server = server;
    this.map = map;
  }

  /**
   * Begins to serve.
   *
   * @param port 0 for any that is free
   * @param map of the traffic of each frame
   * @throws SystemErrorException if the port is taken
   */
  static FrameServer open(int port, TrafficMap map) {
    try {
      InetSocketAddress address = new InetSocketAddress(InetAddress.getLoopbackAddress(), port);
      FrameServer frames = new FrameServer(HttpServers.open(address), map);
      frames.server.createContext("/", frames::answer);
      frames.server.start();
      return frames;
    } catch (IOException e) {
      throw new SystemErrorException(
          ErrorId.PORT,
          "cannot listen on port %d of the loopback address: %s".formatted(port, e.getMessage()),
          "pass another port, or 0 for any that is free",
          e);
    }
  }

  /** The page's address. */
  String address() {
    return "http://127.0.0.1:%d/".formatted(server.getAddress().getPort());
  }

  /** Shows a frame from now on, and adds it to the sums. For one thread. */
  void show(Frame next) {
    sums.add(next);
    metrics = sums.toString().getBytes(StandardCharsets.UTF_8);
    // The page asks for the hosts when it sees a new frame.
    hosts = HostsJson.of(map.of(next)).getBytes(StandardCharsets.UTF_8);
    frame = FrameJson.of(next).getBytes(StandardCharsets.UTF_8);
  }

  private void answer(HttpExchange exchange) throws IOException {
    try (exchange) {
      String path = exchange.getRequestURI().getPath();
      String[] resource = RESOURCES.get(path);
      if (!exchange.getRequestMethod().equals("GET")) {
        send(exchange, 405, "text/plain", "GET only\n".getBytes(StandardCharsets.UTF_8));
      } else if (path.equals("/frame.json")) {
        send(exchange, 200, "application/json", frame);
      } else if (path.equals("/hosts.json")) {
        send(exchange, 200, "application/json", hosts);
      } else if (path.equals("/metrics")) {
        send(exchange, 200, PrometheusWriter.MEDIA_TYPE, metrics);
      } else if (resource != null) {
        try (InputStream in = FrameServer.class.getResourceAsStream(resource[0])) {
          send(exchange, 200, resource[1], in.readAllBytes());
        }
      } else {
        send(exchange, 404, "text/plain", "not found\n".getBytes(StandardCharsets.UTF_8));
      }
    }
  }

  private static void send(HttpExchange exchange, int status, String type, byte[] body)
      throws IOException {
    exchange.getResponseHeaders().set("Content-Type", type);
    exchange.getResponseHeaders().set("Cache-Control", "no-store");
    exchange.getResponseHeaders().set("Content-Security-Policy", "default-src 'self'");
    exchange.sendResponseHeaders(status, body.length);
    exchange.getResponseBody().write(body);
  }

  @Override
  public void close() {
    server.stop(0);
  }
}
