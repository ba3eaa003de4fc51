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
import java.util.Optional;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.observe.LinkSpeeds;
import org.nccl4j.api.observe.flight.RankReport;
import org.nccl4j.api.observe.flight.RankReport.Failover;
import org.nccl4j.api.observe.flight.RankReport.ProcessReport;
import org.nccl4j.api.observe.flight.RankReport.Recent;
import org.nccl4j.api.observe.flight.RankReport.Traffic;
import org.nccl4j.api.spi.Failovers;
import org.nccl4j.it.top.Frame.CommunicatorRates;
import org.nccl4j.it.top.Frame.Counts;
import org.nccl4j.it.top.Frame.LinkRates;
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

  private static final LinkSpeeds NO_SPEEDS = new LinkSpeeds(List.of(), List.of(), 0);

  private static RankRates rank(int rank, long operations, String state, Failover... failovers) {
    ProcessReport process = new ProcessReport("h", 41 + rank, "S");
    Counts counts = new Counts(operations, 10 * operations, 20 * operations, operations / 4.0);
    return new RankRates(
        rank,
        process,
        counts,
        0,
        0,
        0,
        0,
        1 - rank,
        "all_reduce",
        state,
        List.of(new LinkRates(1 - rank, "NET", "Socket/eth0", 3 * operations, 0, 0)),
        List.of(failovers),
        RankReport.HOST);
  }

  private static Frame frame(CommunicatorRates... communicators) {
    return frame(1000, communicators);
  }

  private static Frame frame(long millis, CommunicatorRates... communicators) {
    return new Frame(millis, 1, List.of(communicators), List.of());
  }

  /** Two ranks of which the first has ended as many operations as it is told. */
  private static CommunicatorRates pair(String name, long id, long operations) {
    return new CommunicatorRates(
        name,
        id,
        2,
        List.of(rank(0, operations, "waits"), rank(1, 7, "failed")),
        List.of(new Wait(0, 1, 0.9)),
        NO_SPEEDS);
  }

  private static CommunicatorRates pair(String name) {
    return pair(name, 1, 5);
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
  void aScrapeHasTheCountsOfTheLastFrame() throws IOException {
    try (FrameServer server =
        FrameServer.open(0, new TrafficMap(host -> Optional.empty()), process -> true)) {
      assertEquals(Map.of(), parse(scrape(server)), "before the first frame");
      server.show(frame(pair("training", 1, 5)));
      server.show(frame(pair("training", 1, 15)));
      Map<String, Double> samples = parse(scrape(server));
      String first = TRAINING.formatted(0, 41);
      String second = TRAINING.formatted(1, 42);
      assertEquals(15, samples.get("nccl4j_operations_total{" + first + "}"));
      assertEquals(7, samples.get("nccl4j_operations_total{" + second + "}"));
      assertEquals(150, samples.get("nccl4j_operation_bytes_total{" + first + "}"));
      assertEquals(300, samples.get("nccl4j_bus_bytes_total{" + first + "}"));
      String link = first + ",peer=\"1\",transport=\"NET\"";
      assertEquals(45, samples.get("nccl4j_link_bytes_total{" + link + "}"));
      assertEquals(3.75, samples.get("nccl4j_wait_seconds_total{" + first + "}"));
      assertEquals(0, samples.get("nccl4j_failed{" + first + "}"));
      assertEquals(1, samples.get("nccl4j_failed{" + second + "}"));
      assertEquals(0.9, samples.get("nccl4j_wait_ratio{" + first + ",waits_for=\"1\"}"));
      assertEquals(2, samples.get("nccl4j_communicator_ranks{communicator=\"training\"}"));
      assertEquals(16, samples.size(), samples.toString());
    }
  }

  @Test
  void namesAreEscaped() {
    PrometheusText text = new PrometheusText(process -> true);
    text.add(frame(pair("a \"b\" \\ c\nd")));
    Map<String, Double> samples = parse(text.toString());
    String name = "communicator=\"a \\\"b\\\" \\\\ c\\nd\"";
    assertEquals(2, samples.get("nccl4j_communicator_ranks{" + name + "}"), samples.toString());
  }

  /** Two samples of equal labels would make the scrape fail. */
  @Test
  void communicatorsOfOneNameAreOneSeries() {
    PrometheusText text = new PrometheusText(process -> true);
    text.add(frame(pair("x", 1, 5), pair("x", 2, 5)));
    Map<String, Double> samples = parse(text.toString());
    String labels = TRAINING.replace("training", "x").formatted(0, 41);
    assertEquals(10, samples.get("nccl4j_operations_total{" + labels + "}"));
  }

  private static double operations(PrometheusText text, String communicator) {
    String labels = TRAINING.replace("training", communicator).formatted(0, 41);
    return parse(text.toString()).get("nccl4j_operations_total{" + labels + "}");
  }

  /** Communicators close, others of the same name come, and one begins anew: none falls. */
  @Test
  void countersNeverFallWhileTheirProcessLives() {
    PrometheusText text = new PrometheusText(process -> true);
    text.add(frame(pair("x", 1, 5), pair("x", 2, 6), pair("y")));
    assertEquals(11, operations(text, "x"));
    text.add(frame(pair("x", 2, 8), pair("y")));
    assertEquals(13, operations(text, "x"));
    text.add(frame(pair("y")));
    assertEquals(13, operations(text, "x"));
    text.add(frame(pair("x", 3, 4), pair("y")));
    assertEquals(17, operations(text, "x"));
    text.add(frame(pair("x", 3, 1), pair("y")));
    assertEquals(18, operations(text, "x"));
    text.add(frame()); // it has no communicator at all
    assertEquals(18, operations(text, "x"));
    text.add(frame(pair("x", 4, 2)));
    assertEquals(20, operations(text, "x"));
  }

  private static final int MINUTE_MILLIS = 60_000;

  /** A program that makes a communicator of another name in each step, and one that it keeps. */
  @Test
  void countersOfClosedCommunicatorsEndAfterSomeMinutes() {
    PrometheusText text = new PrometheusText(process -> true);
    for (int minute = 0; minute < 100; minute++) {
      String name = "step " + minute;
      text.add(frame(minute * MINUTE_MILLIS, pair(name, 1, 5), pair("kept", 1000 + minute, 5)));
    }
    assertEquals(5, operations(text, "step 99"));
    assertEquals(5, operations(text, "step 98"), "it is scraped after its end");
    assertEquals(500, operations(text, "kept"));
    assertFalse(text.toString().contains("step 90"), text.toString());
    int length = text.toString().length();
    text.add(frame(100 * MINUTE_MILLIS, pair("step 99", 1, 5), pair("kept", 1, 5)));
    assertTrue(text.toString().length() <= length, "it grows");
  }

  @Test
  void seriesEndWithTheirProcess() {
    Set<Long> ended = new HashSet<>();
    PrometheusText text = new PrometheusText(process -> !ended.contains(process.pid()));
    CommunicatorRates whole = pair("x");
    text.add(frame(whole));
    ended.add(41L);
    text.add(
        frame(
            new CommunicatorRates("x", 1, 2, List.of(whole.ranks().get(1)), List.of(), NO_SPEEDS)));
    assertFalse(text.toString().contains("pid=\"41\""), text.toString());
    assertTrue(text.toString().contains("pid=\"42\""), text.toString());
  }

  /** Gauges tell of now, so those of a closed communicator end. */
  @Test
  void gaugesEndWithTheirCommunicator() {
    PrometheusText text = new PrometheusText(process -> true);
    text.add(frame(pair("x"), pair("y")));
    text.add(frame(pair("y")));
    String left = text.toString();
    assertFalse(left.contains("nccl4j_failed{communicator=\"x\""), left);
    assertFalse(left.contains("nccl4j_communicator_ranks{communicator=\"x\""), left);
  }

  /** As the server of a job's state names them. */
  @Test
  void slowLinksHaveTheirSpeedAndRatio() {
    Recent recent = new Recent(8000, 4_000_000, 7000, 0, 0, 0);
    Traffic link = new Traffic(1, "NET", "Socket/eth0", 5, 0, 0, 0, recent);
    LinkSpeeds.Speed speed = new LinkSpeeds.Speed(0, link, 5e5, 0.9);
    PrometheusText text = new PrometheusText(process -> true);
    CommunicatorRates pair = pair("training");
    LinkSpeeds speeds =
        new LinkSpeeds(List.of(speed), List.of(new LinkSpeeds.Slow(speed, 2e6, 3)), 0);
    text.add(frame(new CommunicatorRates("training", 1, 2, pair.ranks(), pair.waits(), speeds)));
    Map<String, Double> samples = parse(text.toString());
    String labels = TRAINING.formatted(0, 41) + ",peer=\"1\",transport=\"NET\"";
    assertEquals(5e5, samples.get("nccl4j_link_bytes_per_second{" + labels + "}"));
    assertEquals(0.25, samples.get("nccl4j_slow_link_ratio{" + labels + "}"));
  }

  @Test
  void replacedPathsAreCountedByRank() {
    PrometheusText text = new PrometheusText(process -> true);
    Failover one = new Failover(1, new Failovers(3, 5, 64, "eth0"));
    Failover others = new Failover(-1, new Failovers(2, 5, 32, ""));
    text.add(
        frame(
            new CommunicatorRates(
                "training", 1, 2, List.of(rank(0, 5, "runs", one, others)), List.of(), NO_SPEEDS)));
    Map<String, Double> samples = parse(text.toString());
    String labels = TRAINING.formatted(0, 41);
    assertEquals(3, samples.get("nccl4j_path_failovers_total{" + labels + ",peer=\"1\"}"));
    assertEquals(2, samples.get("nccl4j_path_failovers_total{" + labels + ",peer=\"others\"}"));
    assertEquals(64, samples.get("nccl4j_bytes_sent_again_total{" + labels + ",peer=\"1\"}"));
  }
}
