package org.nccl4j.it.top;

import com.sun.net.httpserver.HttpExchange;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.function.Predicate;
import org.nccl4j.api.observe.flight.RankReport.ProcessReport;
import org.nccl4j.api.observe.http.GetServer;
import org.nccl4j.api.observe.http.PrometheusWriter;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.SystemErrorException;

/**
 * Serves a page that draws the frames, the last frame and its hosts as JSON, and their sums to
 * Prometheus, on this machine alone.
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

  private final GetServer server;
  private final PrometheusText sums;
  private volatile byte[] metrics;
  private final TrafficMap map;
  private volatile byte[] frame = "{}".getBytes(StandardCharsets.UTF_8);
  private volatile byte[] hosts = "[]".getBytes(StandardCharsets.UTF_8);

  private FrameServer(int port, TrafficMap map, Predicate<ProcessReport> lives) throws IOException {
    this.map = map;
    this.sums = new PrometheusText(lives);
    this.metrics = sums.toString().getBytes(StandardCharsets.UTF_8);
    InetSocketAddress address = new InetSocketAddress(InetAddress.getLoopbackAddress(), port);
    this.server = GetServer.open(address, "nccl4j-top-http", this::answer);
  }

  /**
   * Begins to serve.
   *
   * @param port 0 for any that is free
   * @param map of the traffic of each frame
   * @param lives false for a process that has ended, and its counters with it
   * @throws SystemErrorException if the port is taken
   */
  static FrameServer open(int port, TrafficMap map, Predicate<ProcessReport> lives) {
    try {
      return new FrameServer(port, map, lives);
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
    return address(server.address());
  }

  static String address(InetSocketAddress listening) {
    String host = listening.getAddress().getHostAddress();
    return "http://%s:%d/"
        .formatted(host.indexOf(':') < 0 ? host : "[" + host + "]", listening.getPort());
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
    String path = exchange.getRequestURI().getPath();
    String[] resource = RESOURCES.get(path);
    if (path.equals("/frame.json")) {
      GetServer.send(exchange, 200, "application/json", frame);
    } else if (path.equals("/hosts.json")) {
      GetServer.send(exchange, 200, "application/json", hosts);
    } else if (path.equals("/metrics")) {
      GetServer.send(exchange, 200, PrometheusWriter.MEDIA_TYPE, metrics);
    } else if (resource != null) {
      try (InputStream in = FrameServer.class.getResourceAsStream(resource[0])) {
        GetServer.send(exchange, 200, resource[1], in.readAllBytes());
      }
    } else {
      byte[] body = "not found\n".getBytes(StandardCharsets.UTF_8);
      GetServer.send(exchange, 404, "text/plain", body);
    }
  }

  @Override
  public void close() {
    server.close();
  }
}
