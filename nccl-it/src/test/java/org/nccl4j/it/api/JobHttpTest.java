package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.text.MessageFormat;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;
import org.nccl4j.it.net.OwnPorts;

/** The state of a job that rank 0 serves by HTTP while the job runs. */
@Timeout(600)
class JobHttpTest {
  private static final Pattern SERVED = Pattern.compile("the job's state is served at (http\\S+)");
  private static final int COUNT = 100_000;
  private static final long PATIENCE_NANOS = 300_000_000_000L;

  private final Logger logger = Logger.getLogger("org.nccl4j");
  private final Queue<String> addresses = new ConcurrentLinkedQueue<>();

  private final Handler handler =
      new Handler() {
        @Override
        public void publish(LogRecord log) {
          Matcher served =
              SERVED.matcher(MessageFormat.format(log.getMessage(), log.getParameters()));
          if (served.find()) {
            addresses.add(served.group(1));
          }
        }

        @Override
        public void flush() {
          // Nothing is buffered.
        }

        @Override
        public void close() {
          // Nothing is open.
        }
      };

  @BeforeEach
  void listen() {
    logger.addHandler(handler);
  }

  @AfterEach
  void stop() {
    logger.removeHandler(handler);
  }

  private static CommunicatorConfig config(String address) {
    return CommunicatorConfig.defaults().withName("served").with("NCCL4J_JOB_HTTP", address);
  }

  private static String get(String address) throws IOException {
    HttpURLConnection connection = (HttpURLConnection) URI.create(address).toURL().openConnection();
    connection.setReadTimeout(60_000);
    try (InputStream in = connection.getInputStream()) {
      return new String(in.readAllBytes(), StandardCharsets.UTF_8);
    }
  }

  private static void check(Ranks ranks, String address, int n) throws Exception {
    ranks.run(
        (comm, stream) -> {
          try (DeviceMemory data = Ranks.floats(COUNT, i -> 1)) {
            comm.allReduce(data, data, COUNT, DataType.FLOAT32, RedOp.SUM, stream);
            stream.synchronize();
          }
        });
    long end = System.nanoTime() + PATIENCE_NANOS;
    String json;
    do {
      json = get(address + "job.json");
    } while (!json.contains("\"transport\"") && System.nanoTime() < end);
    assertTrue(json.contains("\"formed\":true,\"nRanks\":" + n + ","), json);
    assertTrue(json.contains("\"name\":\"served\""), json);
    assertTrue(json.contains("\"transport\""), json);
    try (JsonParser parser = new JsonFactory().createParser(json)) {
      while (parser.nextToken() != null) {
        parser.getText();
      }
    }
    String ofRank = "nccl4j_operations_total{communicator=\"served\",rank=\"1\"";
    String metrics;
    do { // a rank may answer late
      metrics = get(address + "metrics");
    } while (!metrics.contains(ofRank) && System.nanoTime() < end);
    assertTrue(metrics.contains("\nnccl4j_job_ranks " + n + "\n"), metrics);
    assertTrue(metrics.contains(ofRank), metrics);
  }

  /** The port closes a moment after the communicator. */
  private static void assertEnds(String address) throws IOException {
    int port = URI.create(address).getPort();
    long end = System.nanoTime() + PATIENCE_NANOS;
    while (OwnPorts.listening().contains(port) && System.nanoTime() < end) {
      Thread.onSpinWait();
    }
    assertFalse(OwnPorts.listening().contains(port));
  }

  /** Rank 0 asks the root, over which the ranks have met. */
  @Test
  void ranksOfSeveralHosts() throws Exception {
    try (Ranks ranks = Ranks.onHosts("AAB", config("0"))) {
      assertEquals(1, addresses.size(), addresses.toString());
      check(ranks, addresses.peek(), 3);
    }
    assertEnds(addresses.peek());
  }

  @Test
  void ranksOfOneProcess() throws Exception {
    try (Ranks ranks = new Ranks(2, config("0"))) {
      assertEquals(1, addresses.size(), addresses.toString());
      check(ranks, addresses.peek(), 2);
    }
    assertEnds(addresses.peek());
  }

  /** All ranks learn of it, and nothing is left of the communicator. */
  @Test
  void aPortThatIsTakenFailsAllRanks() throws Exception {
    try (ServerSocket taken = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      String port = Integer.toString(taken.getLocalPort());
      CompletionException e =
          assertThrows(CompletionException.class, () -> Ranks.onHosts("AB", config(port)));
      NcclException cause = (NcclException) e.getCause();
      assertTrue(cause.problem().contains("NCCL4J_JOB_HTTP=" + port), cause.problem());
    }
  }

  @Test
  void withoutTheSettingNothingListens() throws Exception {
    try (Ranks ranks =
        Ranks.onHosts("AB", List.of(Devices.host()), CommunicatorConfig.defaults())) {
      assertEquals(2, ranks.communicators.size());
    }
    assertEquals(List.of(), List.copyOf(addresses));
  }
}
