package org.nccl4j.api.observe.http;

import com.sun.net.httpserver.HttpExchange;
import java.io.IOException;
import java.lang.System.Logger.Level;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.function.Function;
import java.util.function.Supplier;
import org.nccl4j.api.observe.JobJson;
import org.nccl4j.api.observe.JobReport;
import org.nccl4j.api.settings.HttpAddress;
import org.nccl4j.api.settings.ScaleSettings;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.SystemErrorException;

/**
 * Serves the state of a job by HTTP, without access control: {@code /job.json}, and {@code
 * /metrics} for Prometheus; {@code /} lists them. Each request queries all ranks. Any thread.
 */
public final class JobServer implements AutoCloseable {
  private static final System.Logger LOG = DebugLog.of("RAS");

  private final GetServer server;

  private JobServer(GetServer server) {
    this.server = server;
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
      JobServer made =
          new JobServer(
              GetServer.open(at, "nccl4j-job-http", exchange -> answer(exchange, source)));
      boolean isLocal = at.getAddress().isLoopbackAddress();
      // To be seen at every level of the log where others may read it, or where the port is known
      // from here alone.
      LOG.log(
          isLocal && address.port() != 0 ? Level.INFO : Level.WARNING,
          "the job''s state is served at {0}{1}",
          made.address(),
          isLocal ? "" : " (without access control)");
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
    InetSocketAddress at = server.address();
    String host = at.getAddress().getHostAddress();
    return "http://" + (host.contains(":") ? "[" + host + "]" : host) + ":" + at.getPort() + "/";
  }

  private static void answer(HttpExchange exchange, Supplier<JobReport> source) throws IOException {
    String path = exchange.getRequestURI().getPath();
    if (path.equals("/job.json")) {
      report(exchange, "application/json", source, JobJson::of);
    } else if (path.equals("/metrics")) {
      report(exchange, PrometheusWriter.MEDIA_TYPE, source, JobMetrics::of);
    } else if (path.equals("/")) {
      send(exchange, 200, "text/plain", "/job.json\n/metrics\n");
    } else {
      send(exchange, 404, "text/plain", "only /job.json and /metrics\n");
    }
  }

  private static void report(
      HttpExchange exchange,
      String type,
      Supplier<JobReport> source,
      Function<JobReport, String> writer)
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
    GetServer.send(exchange, status, type, text.getBytes(StandardCharsets.UTF_8));
  }

  /** Serves nothing any more. Calling it again does nothing. */
  @Override
  public void close() {
    server.close();
  }
}
