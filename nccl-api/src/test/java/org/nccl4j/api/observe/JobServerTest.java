package org.nccl4j.api.observe;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.bootstrap.JobObserver;
import org.nccl4j.api.bootstrap.root.RankState;
import org.nccl4j.api.observe.flight.RankReport;
import org.nccl4j.api.observe.flight.RankReport.Failover;
import org.nccl4j.api.observe.flight.RankReport.Operation;
import org.nccl4j.api.observe.flight.RankReport.ProcessReport;
import org.nccl4j.api.observe.flight.RankReport.Traffic;
import org.nccl4j.api.observe.flight.StateMessage;
import org.nccl4j.api.observe.http.JobServer;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.spi.Failovers;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.SystemErrorException;

/** The state of a job by HTTP: of simulated ranks, and of jobs that cannot be asked. */
@Timeout(600)
class JobServerTest {
  private static final String TYPE = "Content-Type: ";
  private static final int RANKS = 1024;
  private static final int BEHIND = 77;
  private static final double MOST_SECONDS = 2;

  /** Other work of the machine may delay some requests. */
  private static final int MOST_TRIES = 10;

  private record Answer(int status, String type, String body) {}

  private static Settings settings(String address) {
    return Settings.ofProcess(Map.of("NCCL4J_JOB_HTTP", address));
  }

  private static JobServer open(Supplier<JobReport> source) {
    return JobServer.open(settings("0"), source);
  }

  /** One request by a socket of its own: the JDK's clients keep theirs, which other tests count. */
  private static Answer get(JobServer server, String path, String method) throws IOException {
    URI at = URI.create(server.address() + path);
    try (Socket socket = new Socket(at.getHost(), at.getPort())) {
      socket.setSoTimeout(60_000);
      String request = "%s %s HTTP/1.0\r\n\r\n".formatted(method, at.getPath());
      socket.getOutputStream().write(request.getBytes(StandardCharsets.US_ASCII));
      String all = new String(socket.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
      int end = all.indexOf("\r\n\r\n");
      List<String> head = all.substring(0, end).lines().toList();
      String type =
          head.stream()
              .filter(line -> line.regionMatches(true, 0, TYPE, 0, TYPE.length()))
              .map(line -> line.substring(TYPE.length()))
              .findFirst()
              .orElseThrow();
      return new Answer(Integer.parseInt(head.get(0).split(" ")[1]), type, all.substring(end + 4));
    }
  }

  /** A rank in an all-reduce that one rank has not called. */
  private static RankReport report(int rank) {
    List<Operation> operations = new ArrayList<>();
    int called = rank == BEHIND ? 8 : 9;
    for (int n = called; n <= called; n++) {
      operations.add(
          new Operation(n, n, "all_reduce", 0, 1000, 4000, "all_reduce of 1000 float (sum)"));
    }
    return new RankReport(
        new ProcessReport("", 0, ""),
        7,
        "train \"all\"",
        rank,
        RANKS,
        called,
        8,
        9,
        rank == BEHIND ? -1 : (rank + RANKS - 1) % RANKS,
        2500,
        1,
        false,
        new RankReport.Front(0, 0, 0, 0),
        operations,
        List.of(),
        new RankReport.Links(
            List.of(new Traffic((rank + 1) % RANKS, "NET", 1_000_000L + rank)),
            rank == 3 ? List.of(new Failover(4, new Failovers(2, 5, 64, "eth0"))) : List.of()),
        "",
        RankReport.Replays.NONE);
  }

  private static JobObserver.States states() {
    List<RankState> ranks = new ArrayList<>();
    for (int rank = 0; rank < RANKS; rank++) {
      byte[] state = StateMessage.encode(List.of(report(rank)));
      ranks.add(new RankState(rank, "host" + rank / 8, 100 + rank, true, state));
    }
    return new JobObserver.States(RANKS, true, ranks);
  }

  @Test
  void aThousandRanksAreThereInTwoSeconds() throws IOException {
    JobObserver.States states = states();
    try (JobServer server = open(() -> JobReport.of(List.of(states)))) {
      Answer json = get(server, "job.json", "GET");
      double least = Double.MAX_VALUE;
      for (int tries = 0; tries < MOST_TRIES && least >= MOST_SECONDS; tries++) {
        long begin = System.nanoTime();
        json = get(server, "job.json", "GET");
        least = Math.min(least, (System.nanoTime() - begin) / 1e9);
      }
      assertTrue(least < MOST_SECONDS, least + " s");
      assertEquals(200, json.status());
      assertEquals("application/json", json.type());
      String body = json.body();
      assertTrue(body.startsWith("{\"healthy\":false,\"formed\":true,\"nRanks\":1024,"), body);
      assertTrue(body.contains("\"name\":\"train \\\"all\\\"\""), body);
      assertTrue(body.contains("\"behind\":[{\"rank\":77,\"collectives\":1}]"), body);
      assertTrue(
          body.contains(
              "\"links\":[{\"peer\":0,\"transport\":\"NET\",\"via\":\"\",\"bytes\":1001023,"),
          body);
      assertEquals(RANKS, body.split("\"launched\":", -1).length - 1);
    }
  }

  @Test
  void metricsOfAThousandRanks() throws IOException {
    JobObserver.States states = states();
    try (JobServer server = open(() -> JobReport.of(List.of(states)))) {
      Answer metrics = get(server, "metrics", "GET");
      assertEquals("text/plain; version=0.0.4; charset=utf-8", metrics.type());
      List<String> lines = metrics.body().lines().toList();
      String labels = "{communicator=\"train \\\"all\\\"\",rank=\"%d\",host=\"host%d\",pid=\"%d\"";
      String behind = labels.formatted(77, 9, 177) + "}";
      assertTrue(lines.contains("nccl4j_job_ranks 1024"), metrics.body());
      assertTrue(lines.contains("nccl4j_job_healthy 0"));
      assertTrue(lines.contains("nccl4j_behind_collectives" + behind + " 1"));
      assertTrue(lines.contains("nccl4j_operations_total" + behind + " 8"));
      String waits = labels.formatted(78, 9, 178) + ",waits_for=\"77\"}";
      assertTrue(lines.contains("nccl4j_waits_for_seconds" + waits + " 2.5"));
      String link = labels.formatted(3, 0, 103) + ",peer=\"4\"";
      assertTrue(lines.contains("nccl4j_link_bytes_total" + link + ",transport=\"NET\"} 1000003"));
      assertTrue(lines.contains("nccl4j_path_failovers_total" + link + "} 2"));
      assertTrue(lines.contains("nccl4j_bytes_sent_again_total" + link + "} 64"));
    }
  }

  private static JobObserver.States ring() {
    SimulatedRing ring = new SimulatedRing(RANKS).withSlowLink(BEHIND).with(5, 0, 8000, 8000, 0);
    List<RankState> ranks = new ArrayList<>();
    for (int rank = 0; rank < RANKS; rank++) {
      byte[] state = StateMessage.encode(List.of(ring.report(rank)));
      ranks.add(new RankState(rank, "host" + rank, 100 + rank, true, state));
    }
    return new JobObserver.States(RANKS, true, ranks);
  }

  /** A slow link and a stalled one; they do not make a job unhealthy. */
  @Test
  void slowLinksOfAThousandRanks() throws IOException {
    JobObserver.States states = ring();
    try (JobServer server = open(() -> JobReport.of(List.of(states)))) {
      String json = get(server, "job.json", "GET").body();
      assertTrue(json.startsWith("{\"healthy\":true,"), json);
      assertTrue(
          json.contains(
              "\"slowLinks\":[{\"rank\":5,\"peer\":6,\"link\":\"NET/Socket/eth0\",\"stalled\":true,"
                  + "\"bytesPerSecond\":0,\"median\":0,\"links\":0},{\"rank\":77,\"peer\":78,"
                  + "\"link\":\"NET/Socket/eth0\",\"stalled\":false,\"bytesPerSecond\":526315789,"
                  + "\"median\":5000000000,\"links\":1023}]"),
          json);
      assertTrue(
          json.contains(
              "\"recent\":{\"millis\":8000,\"bytes\":4000000000,\"underWayMillis\":7600,"
                  + "\"stalledMillis\":0,\"received\":0,\"roomMillis\":0}"),
          json);
      List<String> lines = get(server, "metrics", "GET").body().lines().toList();
      String link =
          "{communicator=\"ring\",rank=\"77\",host=\"host77\",pid=\"177\",peer=\"78\",transport=\"NET\"}";
      assertTrue(lines.contains("nccl4j_link_bytes_total" + link + " 40000000000"));
      assertTrue(lines.contains("nccl4j_link_under_way_seconds_total" + link + " 76"));
      assertTrue(lines.contains("nccl4j_link_stalled_seconds_total" + link + " 0"));
      String name = "nccl4j_link_bytes_per_second" + link + " ";
      assertTrue(lines.stream().anyMatch(line -> line.startsWith(name + "5.26315789")));
      List<String> slow =
          lines.stream().filter(line -> line.startsWith("nccl4j_slow_link_ratio{")).toList();
      assertEquals(2, slow.size(), slow.toString());
      assertTrue(slow.get(0).contains("rank=\"5\"") && slow.get(0).endsWith(" 0"), slow.get(0));
      assertTrue(slow.get(1).startsWith("nccl4j_slow_link_ratio" + link + " 0.105"), slow.get(1));
      String to = link.replace("77", "78").replace("peer=\"78\"", "peer=\"77\"");
      assertTrue(lines.contains("nccl4j_link_received_bytes_total" + to + " 40000000000"), to);
    }
  }

  @Test
  void otherRequestsAreRefused() throws IOException {
    JobObserver.States states = new JobObserver.States(2, false, List.of());
    try (JobServer server = open(() -> JobReport.of(List.of(states)))) {
      assertTrue(server.address().startsWith("http://127.0.0.1:"), server.address());
      assertEquals("/job.json\n/metrics\n", get(server, "", "GET").body());
      assertEquals(405, get(server, "job.json", "POST").status());
      assertTrue(get(server, "job.json", "GET").body().contains("\"gone\":[0,1]"));
    }
  }

  @Test
  void aJobThatCannotBeAskedIsAnErrorThatSaysWhy() throws IOException {
    Supplier<JobReport> source =
        () -> {
          throw new SystemErrorException(ErrorId.UNREACHABLE, "no root", "start one");
        };
    try (JobServer server = open(source)) {
      Answer answer = get(server, "metrics", "GET");
      assertEquals(503, answer.status());
      assertTrue(answer.body().contains("no root"), answer.body());
    }
  }

  @Test
  void withoutTheSettingNothingIsServed() {
    assertNull(JobServer.open(Settings.ofProcess(Map.of()), () -> null));
  }

  @Test
  void anAddressNamesAnInterface() throws IOException {
    try (JobServer server = JobServer.open(settings("lo:0"), JobServerTest::nothing);
        JobServer same = JobServer.open(settings("127.0.0.1:0"), JobServerTest::nothing)) {
      assertTrue(server.address().startsWith("http://127.0.0.1:"), server.address());
      assertEquals(404, get(server, "x", "GET").status());
      assertEquals(404, get(same, "x", "GET").status());
    }
  }

  private static JobReport nothing() {
    return JobReport.of(List.of(new JobObserver.States(0, false, List.of())));
  }

  @Test
  void addressesThatAreWrongAreRefused() throws IOException {
    for (String wrong : List.of("eth0", "70000", "-1", ":80", "lo:x")) {
      assertThrows(
          InvalidArgumentException.class,
          () -> JobServer.open(settings(wrong), JobServerTest::nothing),
          wrong);
    }
    InvalidArgumentException unknown =
        assertThrows(
            InvalidArgumentException.class,
            () -> JobServer.open(settings("no-such-card.invalid:0"), JobServerTest::nothing));
    assertTrue(unknown.getMessage().contains("no-such-card"), unknown.getMessage());
    try (ServerSocket taken = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      SystemErrorException e =
          assertThrows(
              SystemErrorException.class,
              () ->
                  JobServer.open(
                      settings(Integer.toString(taken.getLocalPort())), JobServerTest::nothing));
      assertTrue(e.getMessage().contains("NCCL4J_JOB_HTTP="), e.getMessage());
    }
  }
}
