package org.nccl4j.api.observe.http;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.lang.System.Logger.Level;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.function.Function;
import java.util.function.Supplier;
import org.nccl4j.api.observe.JobJson;
import org.nccl4j.api.observe.JobReport;
import org.nccl4j.api.settings.HttpAddress;
import org.nccl4j.api.settings.ScaleSettings;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.device.DaemonThread;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.Patience;
import org.nccl4j.device.SystemErrorException;

/**
 * Serves the state of a job by HTTP, without access control: {@code /job.json}, and {@code
 * /metrics} for Prometheus. Each request queries all ranks. Any thread.
 */
public final class JobServer implements AutoCloseable {
  private static final System.Logger LOG = DebugLog.of("RAS");
  private static final int THREADS = 2;
  private static final Duration START = Duration.ofSeconds(5);

  private final HttpServer server;
  private final ExecutorService threads;
  private final Supplier<JobReport> source;

  private JobServer(HttpServer server, ExecutorService threads, Supplier<JobReport> source) {
    this.server = server;
    this.threads = threads;
    this.source = source;
  }

  /**
   * Begins to serve, if the settings ask for it.
   *
   * @param source queries the job; throws NcclException if it cannot
   * @return null if they do not
   * @throws SystemErrorException if the address cannot be listened on
   * @throws InvalidArgumentException without module jdk.httpserver
   */
  public static JobServer open(Settings settings, Supplier<JobReport> source) {
    HttpAddress address = settings.get(ScaleSettings.NCCL4J_JOB_HTTP);
    if (address.isOff()) {
      return null;
    }
    try {
      return open(address, source);
    } catch (NoClassDefFoundError e) {
      throw new InvalidArgumentException(
          ErrorId.SETTING,
          "NCCL4J_JOB_HTTP needs an HTTP server, and this Java runtime has no module"
              + " jdk.httpserver",
          "start it with --add-modules jdk.httpserver, link the runtime with that module (jlink"
              + " --add-modules jdk.httpserver), or unset NCCL4J_JOB_HTTP",
          e);
    }
  }

  private static JobServer open(HttpAddress address, Supplier<JobReport> source) {
    InetSocketAddress at = address.resolve();
    try {
      HttpServer server = HttpServers.open(at);
      ExecutorService threads =
          Executors.newFixedThreadPool(
              THREADS, task -> DaemonThread.of(task, "nccl4j-job-http-answer"));
      JobServer made = new JobServer(server, threads, source);
      made.server.createContext("/", made::answer);
      made.server.setExecutor(threads);
      // The server's own thread is a daemon if the thread that starts it is one.
      Thread starter = DaemonThread.of(made.server::start, "nccl4j-job-http");
      starter.start();
      if (!Patience.join(starter, START)) {
        made.close();
        throw new InternalErrorException(
            "the HTTP server has not started within " + Patience.text(START), "report this");
      }
      // A warning, to be seen at every level of the log: port 0 is known from here alone.
      LOG.log(Level.WARNING, "the job''s state is served at {0}", made.address());
      return made;
    } catch (IOException e) {
      throw new SystemErrorException(
          ErrorId.PORT,
          "NCCL4J_JOB_HTTP=%s: cannot listen on %s: %s".formatted(address, at, e.getMessage()),
          "name another port, or 0 for any that is free",
          e);
    }
  }

  /** The address to read the state from, with a slash at the end. */
  public String address() {
    InetSocketAddress at = server.getAddress();
    String host = at.getAddress().getHostAddress();
    return "http://" + (host.contains(":") ? "[" + host + "]" : host) + ":" + at.getPort() + "/";
  }

  private void answer(HttpExchange exchange) throws IOException {
    try (exchange) {
      String path = exchange.getRequestURI().getPath();
      if (!exchange.getRequestMethod().equals("GET")) {
        send(exchange, 405, "text/plain", "GET only\n");
      } else if (path.equals("/job.json")) {
        report(exchange, "application/json", JobJson::of);
      } else if (path.equals("/metrics")) {
        report(exchange, PrometheusWriter.MEDIA_TYPE, JobMetrics::of);
      } else {
        send(exchange, 404, "text/plain", "only /job.json and /metrics\n");
      }
    }
  }

  private void report(HttpExchange exchange, String type, Function<JobReport, String> writer)
      throws IOException {
    String text;
    try {
      text = writer.apply(source.get());
    } catch (NcclException e) {
      send(exchange, 503, "text/plain; charset=utf-8", e.getMessage() + "\n");
      return;
    }
    send(exchange, 200, type, text);
  }

  private static void send(HttpExchange exchange, int status, String type, String text)
      throws IOException {
    byte[] body = text.getBytes(StandardCharsets.UTF_8);
    exchange.getResponseHeaders().set("Content-Type", type);
    exchange.getResponseHeaders().set("Cache-Control", "no-store");
    exchange.sendResponseHeaders(status, body.length);
    exchange.getResponseBody().write(body);
  }

  /** Serves nothing any more. Calling it again does nothing. */
  @Override
  public void close() {
    server.stop(0);
    threads.shutdownNow();
  }
}
