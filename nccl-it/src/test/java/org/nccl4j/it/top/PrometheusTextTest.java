package org.nccl4j.it.top;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.observe.RankReport.ProcessReport;
import org.nccl4j.it.top.Frame.CommunicatorRates;
import org.nccl4j.it.top.Frame.RankRates;
import org.nccl4j.it.top.Frame.Wait;

/**
 * Every line of {@code /metrics} obeys Prometheus' text format, and the numbers are the frames'.
 */
class PrometheusTextTest {
  private static final String NAME = "[a-zA-Z_:][a-zA-Z0-9_:]*";
  private static final String LABEL = "[a-zA-Z_][a-zA-Z0-9_]*=\"(?:[^\"\\\\\\n]|\\\\[\\\\\"n])*\"";
  private static final Pattern COMMENT = Pattern.compile("# (HELP|TYPE) (" + NAME + ") (.+)");
  private static final Pattern SAMPLE =
      Pattern.compile("(" + NAME + ")\\{(" + LABEL + "(?:," + LABEL + ")*)\\} (\\S+)");

  private static final String TRAINING =
      "communicator=\"training\",rank=\"%d\",host=\"h\",pid=\"%d\"";

  private static RankRates rank(int rank, double operations, String state) {
    ProcessReport process = new ProcessReport("h", 41 + rank, "S");
    return new RankRates(rank, process, operations, 1.5, 3, 0.25, 1 - rank, "all_reduce", state);
  }

  private static Frame frame(double seconds, CommunicatorRates... communicators) {
    return new Frame(1000, seconds, List.of(communicators));
  }

  private static CommunicatorRates pair(String name) {
    return new CommunicatorRates(
        name, 2, List.of(rank(0, 5, "waits"), rank(1, 7, "failed")), List.of(new Wait(0, 1, 0.9)));
  }

  /** The samples by name and labels; fails at the first line that is none. */
  private static Map<String, Double> parse(String text) {
    assertTrue(text.endsWith("\n"));
    Map<String, Double> samples = new HashMap<>();
    Map<String, String> types = new HashMap<>();
    List<String> families = new ArrayList<>();
    Set<String> helped = new HashSet<>();
    for (String line : text.split("\n")) {
      Matcher comment = COMMENT.matcher(line);
      if (comment.matches()) {
        if (comment.group(1).equals("HELP")) {
          assertTrue(helped.add(comment.group(2)), line);
        } else {
          assertTrue(Set.of("counter", "gauge").contains(comment.group(3)), line);
          assertEquals(comment.group(3).equals("counter"), comment.group(2).endsWith("_total"));
          assertEquals(null, types.put(comment.group(2), comment.group(3)), line);
          families.add(comment.group(2));
        }
        continue;
      }
      Matcher sample = SAMPLE.matcher(line);
      assertTrue(sample.matches(), line);
      // Samples of a family stand together, behind its type.
      assertEquals(families.get(families.size() - 1), sample.group(1), line);
      double value = Double.parseDouble(sample.group(3));
      assertEquals(null, samples.put(sample.group(1) + "{" + sample.group(2) + "}", value), line);
    }
    assertEquals(types.keySet(), helped);
    return samples;
  }

  private static String scrape(FrameServer server) throws IOException {
    URI address = URI.create(server.address() + "metrics");
    HttpURLConnection connection = (HttpURLConnection) address.toURL().openConnection();
    connection.setReadTimeout(60_000);
    assertEquals(200, connection.getResponseCode());
    assertEquals("text/plain; version=0.0.4; charset=utf-8", connection.getContentType());
    try (InputStream in = connection.getInputStream()) {
      return new String(in.readAllBytes(), StandardCharsets.UTF_8);
    }
  }

  @Test
  void aScrapeHasTheSumsOfTheFrames() throws IOException {
    try (FrameServer server = FrameServer.open(0)) {
      assertEquals(Map.of(), parse(scrape(server)), "before the first frame");
      server.show(frame(2, pair("training")));
      server.show(frame(1, pair("training")));
      Map<String, Double> samples = parse(scrape(server));
      String first = TRAINING.formatted(0, 41);
      String second = TRAINING.formatted(1, 42);
      assertEquals(15, samples.get("nccl4j_operations_total{" + first + "}"));
      assertEquals(21, samples.get("nccl4j_operations_total{" + second + "}"));
      assertEquals(4.5e9, samples.get("nccl4j_operation_bytes_total{" + first + "}"));
      assertEquals(9e9, samples.get("nccl4j_bus_bytes_total{" + first + "}"));
      assertEquals(0.75, samples.get("nccl4j_wait_seconds_total{" + first + "}"));
      assertEquals(0, samples.get("nccl4j_failed{" + first + "}"));
      assertEquals(1, samples.get("nccl4j_failed{" + second + "}"));
      assertEquals(0.9, samples.get("nccl4j_wait_ratio{" + first + ",waits_for=\"1\"}"));
      assertEquals(2, samples.get("nccl4j_communicator_ranks{communicator=\"training\"}"));
      assertEquals(14, samples.size(), samples.toString());
    }
  }

  @Test
  void namesAreEscaped() {
    PrometheusText text = new PrometheusText();
    text.add(frame(1, pair("a \"b\" \\ c\nd")));
    Map<String, Double> samples = parse(text.toString());
    String name = "communicator=\"a \\\"b\\\" \\\\ c\\nd\"";
    assertEquals(2, samples.get("nccl4j_communicator_ranks{" + name + "}"), samples.toString());
  }

  /** Two samples of equal labels would make the scrape fail. */
  @Test
  void communicatorsOfOneNameAreOneSeries() {
    PrometheusText text = new PrometheusText();
    text.add(frame(1, pair("x"), pair("x")));
    Map<String, Double> samples = parse(text.toString());
    String labels = TRAINING.replace("training", "x").formatted(0, 41);
    assertEquals(10, samples.get("nccl4j_operations_total{" + labels + "}"));
  }

  @Test
  void seriesEndWithTheirProcess() {
    PrometheusText text = new PrometheusText();
    text.add(frame(1, pair("x"), pair("y")));
    text.add(frame(1, pair("y")));
    assertFalse(text.toString().contains("communicator=\"x\""));
    assertTrue(text.toString().contains("communicator=\"y\""));
  }
}
